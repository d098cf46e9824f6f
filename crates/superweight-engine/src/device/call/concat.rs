//! Kernel calls of concatenation.

use crate::device::buffer::{Access, BufferId, Write};

/// Columns of the wide tensor that belong to one narrow tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// First column.
    pub start: usize,
    /// Number of columns of the narrow tensor.
    pub width: usize,
    /// Number of columns of the wide tensor.
    pub of: usize,
}

/// Copies `x` into columns of `y`.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Columns of `y` to write.
    pub columns: Columns,
    /// Narrow input.
    pub x: BufferId,
    /// Wide output.
    pub y: BufferId,
    /// Whether this call is the first to write `y`.
    pub first: bool,
}

impl Forward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        let access = if self.first { Access::Write } else { Access::Update };
        vec![(self.x, Access::Read), (self.y, access)]
    }
}

/// Copies or adds columns of `dy` into `dx`.
#[derive(Clone, Debug)]
pub struct Backward {
    /// Columns of `dy` to read.
    pub columns: Columns,
    /// Gradient of the wide tensor.
    pub dy: BufferId,
    /// Gradient of the narrow tensor.
    pub dx: BufferId,
    /// Whether the output is overwritten or accumulated.
    pub write: Write,
}

impl Backward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.dy, Access::Read), (self.dx, self.write.access())]
    }
}
