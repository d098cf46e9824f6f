//! Calls of a linear layer: a 1×1 convolution and a bias.

use super::conv::emit_backward;
use crate::device::buffer::{BufferId, Write};
use crate::device::call::conv::Forward;
use crate::device::call::linear::{BiasBackward, BiasForward};
use crate::graph::NodeId;
use crate::graph::ops::linear::Op;
use crate::program::emitter::{Emit, Emitter};

impl Emit for Op {
    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let (x, input) = e.input(id, 0);
        let geometry = self.geometry(input.channels, e.batch());
        let y = e.output(id);
        let w = e.parameter(self.weight);
        e.call(id, Forward { geometry, x, w, y, write: Write::Set, epilogue: None });
        if let Some(bias) = self.bias {
            e.call(id, BiasForward { channels: self.out_features, bias: e.parameter(bias), y });
        }
    }

    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, dy: BufferId) {
        if let Some(bias) = self.bias {
            let (dbias, write) = e.parameter_gradient(bias);
            e.call(id, BiasBackward { channels: self.out_features, dy, dbias, write });
        }
        let (x, input) = e.input(id, 0);
        let geometry = self.geometry(input.channels, e.batch());
        emit_backward(e, id, geometry, self.weight, x, dy);
    }
}
