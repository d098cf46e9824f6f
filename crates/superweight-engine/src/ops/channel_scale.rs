//! Per-segment channel scale: `y[n,·,·,c] = x[n,·,·,c] · r[segment(n), c]`.
//!
//! BatchEnsemble's rank-1 factors: member m of S holds rows `m·B/S .. (m+1)·B/S` of the batch and scales the channels
//! before and after each shared layer.

use super::batch_norm::check_segments;
use super::{BatchContext, Keeps, Operation, Write};
use crate::error::Error;
use crate::graph::check::check_size;
use crate::graph::{Graph, GraphBuilder, Node, NodeId, SlotId, SlotKind};
use crate::program::{Access, BufferId, Destination, Emitter};

#[derive(Clone, Debug)]
pub(crate) struct Op {
    segments: usize,
    scale: SlotId,
}

impl GraphBuilder {
    /// A scale per segment and channel, the tensor `{name}.weight`, `[segments, channels]`.
    pub fn channel_scale(
        &mut self,
        name: impl Into<String>,
        x: NodeId,
        segments: usize,
    ) -> Result<NodeId, Error> {
        let name = name.into();
        let shape = self.input_of(&name, x)?;
        check_size(&name, "the number of segments", segments)?;
        let scale =
            self.slot(format!("{name}.weight"), SlotKind::Vector, vec![segments, shape.channels])?;
        self.push(name, super::Op::ChannelScale(Op { segments, scale }), vec![x], shape)
    }
}

/// Rows, segments and channels of a scaled activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleShape {
    /// Rows (pixels of all images) in a segment.
    pub rows: usize,
    /// Segments.
    pub segments: usize,
    /// Channels.
    pub channels: usize,
}

impl Op {
    fn shape(&self, e: &Emitter<'_>, id: NodeId) -> ScaleShape {
        let (_, input) = e.input(id, 0);
        let rows = e.batch() / self.segments * input.pixels();
        ScaleShape { rows, segments: self.segments, channels: input.channels }
    }
}

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "channel scale"
    }

    fn parameters(&self) -> Vec<SlotId> {
        vec![self.scale]
    }

    fn keeps(&self) -> Keeps {
        Keeps { inputs: true, output: false }
    }

    fn check_batch(&self, _graph: &Graph, node: &Node, context: BatchContext) -> Result<(), Error> {
        check_segments(&node.name, context.batch, self.segments)
    }

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

/// `y = x·r`.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Rows, segments, channels.
    pub shape: ScaleShape,
    /// Input; `None`: it lies at the destination.
    pub x: Option<BufferId>,
    /// `r`.
    pub scale: BufferId,
    /// Output.
    pub y: BufferId,
}

impl Forward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        let mut all = vec![(self.scale, Access::Read)];
        all.extend(self.x.map(|x| (x, Access::Read)));
        all.push((self.y, if self.x.is_some() { Access::Write } else { Access::Update }));
        all
    }
}

/// `dr (+)= Σ dy·x` over the rows of a segment, `dx (+)= dy·r`.
#[derive(Clone, Debug)]
pub struct Backward {
    /// Rows, segments, channels.
    pub shape: ScaleShape,
    /// Input of the forward pass.
    pub x: BufferId,
    /// Gradient of the output.
    pub dy: BufferId,
    /// `r`.
    pub scale: BufferId,
    /// Gradient of `r`.
    pub dscale: BufferId,
    /// Replace or accumulate the gradient of `r`.
    pub write: Write,
    /// Gradient of the input, where it is needed.
    pub dx: Option<(BufferId, Write)>,
}

impl Backward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        let mut all =
            vec![(self.x, Access::Read), (self.dy, Access::Read), (self.scale, Access::Read)];
        all.push((self.dscale, self.write.access()));
        all.extend(self.dx.map(|(dx, write)| (dx, write.access())));
        all
    }
}
