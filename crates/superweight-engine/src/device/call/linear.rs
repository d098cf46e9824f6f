//! Kernel calls of a linear layer's bias. Its product is a convolution call.

use crate::device::buffer::{Access, BufferId, Write};

/// Adds the bias to every row: `y += bias`.
#[derive(Clone, Debug)]
pub struct BiasForward {
    /// Number of channels per row.
    pub channels: usize,
    /// Bias.
    pub bias: BufferId,
    /// Rows to add the bias to.
    pub y: BufferId,
}

impl BiasForward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.bias, Access::Read), (self.y, Access::Update)]
    }
}

/// Sums the rows of `dy`: `dbias (+)= Σ rows of dy`.
#[derive(Clone, Debug)]
pub struct BiasBackward {
    /// Number of channels per row.
    pub channels: usize,
    /// Gradient of the output.
    pub dy: BufferId,
    /// Gradient of the bias.
    pub dbias: BufferId,
    /// Whether the output is overwritten or accumulated.
    pub write: Write,
}

impl BiasBackward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.dy, Access::Read), (self.dbias, self.write.access())]
    }
}
