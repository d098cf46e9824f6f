//! Kernel calls of the softmax.

use crate::device::buffer::{Access, BufferId, Write};

/// `y = exp(x) / Σ exp(x)`, row by row.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Number of channels per row.
    pub channels: usize,
    /// Logits.
    pub x: BufferId,
    /// Probabilities.
    pub y: BufferId,
}

impl Forward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.x, Access::Read), (self.y, Access::Write)]
    }
}

/// `dx (+)= y·(dy − Σ y·dy)`, row by row.
#[derive(Clone, Debug)]
pub struct Backward {
    /// Number of channels per row.
    pub channels: usize,
    /// Probabilities.
    pub y: BufferId,
    /// Gradient of the probabilities.
    pub dy: BufferId,
    /// Gradient of the logits.
    pub dx: BufferId,
    /// Whether the output is overwritten or accumulated.
    pub write: Write,
}

impl Backward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.y, Access::Read), (self.dy, Access::Read), (self.dx, self.write.access())]
    }
}
