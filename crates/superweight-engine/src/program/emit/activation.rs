//! Calls of an activation.

use crate::device::buffer::BufferId;
use crate::device::call::activation::{Backward, Forward};
use crate::graph::NodeId;
use crate::graph::ops::activation::Op;
use crate::program::emitter::{Destination, Emit, Emitter};

impl Emit for Op {
    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let (x, _) = e.input(id, 0);
        let (x, y) = match e.destination(id) {
            Destination::InPlace(y) => (None, y),
            Destination::Own(y) => (Some(x), y),
            Destination::Residual { .. } => unreachable!("an activation does not accumulate"),
        };
        e.call(id, Forward { activation: self.activation, x, y });
    }

    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, dy: BufferId) {
        let y = e.value(id);
        if let Some(dx) = e.input_gradient_in_place(id, 0, dy) {
            e.call(id, Backward { activation: self.activation, y, dy, dx });
        }
    }
}
