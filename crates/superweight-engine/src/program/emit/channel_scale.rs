//! Calls of a per-segment channel scale.

use crate::device::buffer::BufferId;
use crate::device::call::channel_scale::{Backward, Forward, ScaleShape};
use crate::graph::NodeId;
use crate::graph::ops::channel_scale::Op;
use crate::program::emitter::{Destination, Emit, Emitter};

impl Op {
    fn shape(&self, e: &Emitter<'_>, id: NodeId) -> ScaleShape {
        let (_, input) = e.input(id, 0);
        let rows = e.batch() / self.segments * input.pixels();
        ScaleShape { rows, segments: self.segments, channels: input.channels }
    }
}

impl Emit for Op {
    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let (x, _) = e.input(id, 0);
        let shape = self.shape(e, id);
        let (x, y) = match e.destination(id) {
            Destination::InPlace(y) => (None, y),
            Destination::Own(y) => (Some(x), y),
            Destination::Residual { .. } => unreachable!("a channel scale does not accumulate"),
        };
        e.call(id, Forward { shape, x, scale: e.parameter(self.scale), y });
    }

    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, dy: BufferId) {
        let (x, _) = e.input(id, 0);
        let shape = self.shape(e, id);
        let scale = e.parameter(self.scale);
        let (dscale, write) = e.parameter_gradient(self.scale);
        let dx = e.input_gradient(id, 0);
        e.call(id, Backward { shape, x, dy, scale, dscale, write, dx });
    }
}
