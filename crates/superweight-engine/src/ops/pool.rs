//! Pooling: maximum or average over windows, and the average over the whole image.
//!
//! As in PyTorch, padding is −∞ for the maximum (the first of equal maxima gets the gradient) and counts as zeros in
//! the average. The maximum keeps the position of each winner, 4 bytes per output (PyTorch: 8).

use super::{Operation, Write};
use crate::error::Error;
use crate::graph::check::window_output;
use crate::graph::{GraphBuilder, NodeId, Shape};
use crate::program::{Access, BufferId, Element, Emitter, Kept};

/// What a window becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// Its maximum.
    Max,
    /// Its average, zeros of the padding included.
    Average,
}

/// Options of a pooling window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pool2d {
    /// Maximum or average.
    pub kind: PoolKind,
    /// Window height and width.
    pub kernel: [usize; 2],
    /// Vertical and horizontal stride.
    pub stride: [usize; 2],
    /// Padding above and below, left and right; at most half of the window.
    pub padding: [usize; 2],
}

impl Pool2d {
    /// The maximum over square windows.
    pub fn max(kernel: usize, stride: usize, padding: usize) -> Self {
        Self {
            kind: PoolKind::Max,
            kernel: [kernel; 2],
            stride: [stride; 2],
            padding: [padding; 2],
        }
    }

    /// The average over square windows.
    pub fn average(kernel: usize, stride: usize, padding: usize) -> Self {
        Self { kind: PoolKind::Average, ..Self::max(kernel, stride, padding) }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Op {
    options: Pool2d,
}

#[derive(Clone, Debug)]
pub(crate) struct GlobalOp;

impl GraphBuilder {
    /// Maximum or average over windows.
    pub fn pool(
        &mut self,
        name: impl Into<String>,
        x: NodeId,
        options: Pool2d,
    ) -> Result<NodeId, Error> {
        let name = name.into();
        let input = self.input_of(&name, x)?;
        let Pool2d { kernel, stride, padding, .. } = options;
        let [height, width] = window_output(&name, input, kernel, stride, padding)?;
        if (0..2).any(|d| 2 * padding[d] > kernel[d]) {
            return Err(Error::PaddingTooLarge { node: name, kernel, padding });
        }
        let shape = Shape::new(height, width, input.channels);
        self.push(name, super::Op::Pool(Op { options }), vec![x], shape)
    }

    /// The average over the whole image: a vector.
    pub fn global_average_pool(
        &mut self,
        name: impl Into<String>,
        x: NodeId,
    ) -> Result<NodeId, Error> {
        let name = name.into();
        let input = self.input_of(&name, x)?;
        self.push(
            name,
            super::Op::GlobalAveragePool(GlobalOp),
            vec![x],
            Shape::vector(input.channels),
        )
    }
}

/// Sizes of a pooling call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// Images.
    pub batch: usize,
    /// Input height and width.
    pub input: [usize; 2],
    /// Output height and width.
    pub output: [usize; 2],
    /// Channels.
    pub channels: usize,
    /// Window, stride, padding.
    pub window: Pool2d,
}

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

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "pool"
    }

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

impl Operation for GlobalOp {
    fn kind(&self) -> &'static str {
        "global pool"
    }

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

/// `y` = maximum or average of the windows of `x`.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Sizes.
    pub shape: PoolShape,
    /// Input.
    pub x: BufferId,
    /// Output.
    pub y: BufferId,
    /// Where to note the pixel (row·width + column) that won, if a backward pass follows.
    pub positions: Option<BufferId>,
}

impl Forward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        let mut all = vec![(self.x, Access::Read), (self.y, Access::Write)];
        all.extend(self.positions.map(|positions| (positions, Access::Write)));
        all
    }
}

/// Gives each output's gradient to the winner, or to the whole window.
#[derive(Clone, Debug)]
pub struct Backward {
    /// Sizes.
    pub shape: PoolShape,
    /// Gradient of the output.
    pub dy: BufferId,
    /// The winners, for the maximum.
    pub positions: Option<BufferId>,
    /// Gradient of the input.
    pub dx: BufferId,
    /// Replace or accumulate.
    pub write: Write,
}

impl Backward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        let mut all = vec![(self.dy, Access::Read), (self.dx, self.write.access())];
        all.extend(self.positions.map(|positions| (positions, Access::Read)));
        all
    }
}

/// `y[n,c] = mean of x[n,·,·,c]`.
#[derive(Clone, Debug)]
pub struct GlobalForward {
    /// Height times width.
    pub pixels: usize,
    /// Channels.
    pub channels: usize,
    /// Input.
    pub x: BufferId,
    /// Output.
    pub y: BufferId,
}

impl GlobalForward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.x, Access::Read), (self.y, Access::Write)]
    }
}

/// `dx[n,·,·,c] (+)= dy[n,c] / pixels`.
#[derive(Clone, Debug)]
pub struct GlobalBackward {
    /// Height times width.
    pub pixels: usize,
    /// Channels.
    pub channels: usize,
    /// Gradient of the output.
    pub dy: BufferId,
    /// Gradient of the input.
    pub dx: BufferId,
    /// Replace or accumulate.
    pub write: Write,
}

impl GlobalBackward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.dy, Access::Read), (self.dx, self.write.access())]
    }
}
