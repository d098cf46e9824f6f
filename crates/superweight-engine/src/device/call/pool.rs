//! Kernel calls of pooling.

use crate::device::buffer::{Access, BufferId, Write};
use crate::graph::ops::pool::Pool2d;

/// Sizes of a pooling call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// Number of images.
    pub batch: usize,
    /// Input height and width.
    pub input: [usize; 2],
    /// Output height and width.
    pub output: [usize; 2],
    /// Number of channels.
    pub channels: usize,
    /// Window size, stride and padding.
    pub window: Pool2d,
}

/// Computes the maximum or average of each window.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Sizes of the call.
    pub shape: PoolShape,
    /// Input.
    pub x: BufferId,
    /// Output.
    pub y: BufferId,
    /// Where to store the pixel (row·width + column) of each maximum, if a backward pass follows.
    pub positions: Option<BufferId>,
}

impl Forward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        let mut all = vec![(self.x, Access::Read), (self.y, Access::Write)];
        all.extend(self.positions.map(|positions| (positions, Access::Write)));
        all
    }
}

/// Passes each output's gradient to the maximum of its window, or to the whole window for the
/// average.
#[derive(Clone, Debug)]
pub struct Backward {
    /// Sizes of the call.
    pub shape: PoolShape,
    /// Gradient of the output.
    pub dy: BufferId,
    /// Positions of the maxima, for maximum pooling.
    pub positions: Option<BufferId>,
    /// Gradient of the input.
    pub dx: BufferId,
    /// Whether the output is overwritten or accumulated.
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
    /// Number of channels.
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
    /// Number of channels.
    pub channels: usize,
    /// Gradient of the output.
    pub dy: BufferId,
    /// Gradient of the input.
    pub dx: BufferId,
    /// Whether the output is overwritten or accumulated.
    pub write: Write,
}

impl GlobalBackward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.dy, Access::Read), (self.dx, self.write.access())]
    }
}
