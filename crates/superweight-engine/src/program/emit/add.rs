//! Calls of a residual add. An add that an input accumulated into needs at most its activation.

use crate::device::buffer::{BufferId, InputGradient, Write};
use crate::device::call::activation;
use crate::device::call::add::Sum;
use crate::graph::NodeId;
use crate::graph::ops::activation::Activation;
use crate::graph::ops::add::Op;
use crate::program::emitter::{Emit, Emitter};

impl Emit for Op {
    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let activation = self.activation;
        if let Some(fused) = e.accumulated(id) {
            if !fused.activation_done && activation != Activation::None {
                e.call(id, activation::Forward { activation, x: None, y: fused.sum });
            }
            return;
        }
        let ((a, _), (b, _)) = (e.input(id, 0), e.input(id, 1));
        let (lhs, rhs, y) = if let Some(y) = e.take_over(id, 0) {
            (None, b, y)
        } else if let Some(y) = e.take_over(id, 1) {
            (None, a, y)
        } else {
            (Some(a), b, e.output(id))
        };
        e.call(id, Sum { lhs, rhs, y, activation });
    }

    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, dy: BufferId) {
        let activation = self.activation;
        let mut gradient = dy;
        if activation != Activation::None {
            let y = e.value(id);
            let dx = if e.is_exclusive(dy) {
                InputGradient::InPlace
            } else {
                gradient = e.like(dy);
                InputGradient::To(gradient, Write::Set)
            };
            e.call(id, activation::Backward { activation, y, dy, dx });
        }
        e.share_gradient(id, 0, gradient);
        e.share_gradient(id, 1, gradient);
    }
}
