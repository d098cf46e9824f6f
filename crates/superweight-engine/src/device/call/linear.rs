//! Kernel calls of `linear`.

use crate::device::buffer::{Access, BufferId, Write};

/// `y += bias`, row by row.
#[derive(Clone, Debug)]
pub struct BiasForward {
    /// Length of a row.
    pub channels: usize,
    /// The bias.
    pub bias: BufferId,
    /// Rows to add it to.
    pub y: BufferId,
}

impl BiasForward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.bias, Access::Read), (self.y, Access::Update)]
    }
}

/// `dbias (+)= Σ rows of dy`.
#[derive(Clone, Debug)]
pub struct BiasBackward {
    /// Length of a row.
    pub channels: usize,
    /// Gradient of the output.
    pub dy: BufferId,
    /// Gradient of the bias.
    pub dbias: BufferId,
    /// Replace or accumulate.
    pub write: Write,
}

impl BiasBackward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.dy, Access::Read), (self.dbias, self.write.access())]
    }
}
