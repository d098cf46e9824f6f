//! Calls of pooling.

use crate::device::buffer::{BufferId, Element};
use crate::device::call::pool::{Backward, Forward, GlobalBackward, GlobalForward, PoolShape};
use crate::graph::NodeId;
use crate::graph::ops::pool::{GlobalOp, Op, PoolKind};
use crate::program::emitter::{Emit, Emitter, Kept};

impl Op {
    fn shape(&self, e: &Emitter<'_>, id: NodeId) -> PoolShape {
        let ((_, input), output) = (e.input(id, 0), e.shape(id));
        PoolShape {
            batch: e.batch(),
            input: [input.height, input.width],
            output: [output.height, output.width],
            channels: input.channels,
            window: self.options,
        }
    }
}

impl Emit for Op {
    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let (x, _) = e.input(id, 0);
        let shape = self.shape(e, id);
        let y = e.output(id);
        let needed = self.options.kind == PoolKind::Max && e.keeps_for_backward(id);
        let positions = needed.then(|| {
            let positions = e.arena(Element::Index, e.batch() * e.shape(id).len());
            e.keep(id, Kept::Positions(positions));
            positions
        });
        e.call(id, Forward { shape, x, y, positions });
    }

    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, dy: BufferId) {
        let shape = self.shape(e, id);
        let positions = (self.options.kind == PoolKind::Max).then(|| match e.kept(id) {
            Kept::Positions(positions) => positions,
            Kept::Moments(_) => unreachable!("a pool keeps positions"),
        });
        if let Some((dx, write)) = e.input_gradient(id, 0) {
            e.call(id, Backward { shape, dy, positions, dx, write });
        }
    }
}

impl Emit for GlobalOp {
    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let (x, input) = e.input(id, 0);
        let y = e.output(id);
        e.call(id, GlobalForward { pixels: input.pixels(), channels: input.channels, x, y });
    }

    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, dy: BufferId) {
        let (_, input) = e.input(id, 0);
        if let Some((dx, write)) = e.input_gradient(id, 0) {
            e.call(
                id,
                GlobalBackward { pixels: input.pixels(), channels: input.channels, dy, dx, write },
            );
        }
    }
}
