//! Calls of a softmax.

use crate::device::buffer::BufferId;
use crate::device::call::softmax::{Backward, Forward};
use crate::graph::NodeId;
use crate::graph::ops::softmax::Op;
use crate::program::emitter::{Emit, Emitter};

impl Emit for Op {
    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let (x, input) = e.input(id, 0);
        let y = e.output(id);
        e.call(id, Forward { channels: input.channels, x, y });
    }

    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, dy: BufferId) {
        let (y, channels) = (e.value(id), e.shape(id).channels);
        if let Some((dx, write)) = e.input_gradient(id, 0) {
            e.call(id, Backward { channels, y, dy, dx, write });
        }
    }
}
