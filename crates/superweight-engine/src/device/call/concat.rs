//! Kernel calls of `concat`.

use crate::device::buffer::{Access, BufferId, Write};

/// Which columns of the wide side belong to the narrow side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// First column.
    pub start: usize,
    /// Columns of the narrow side.
    pub width: usize,
    /// Columns of the wide side.
    pub of: usize,
}

/// Copies `x` into columns of `y`.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Which columns.
    pub columns: Columns,
    /// Narrow input.
    pub x: BufferId,
    /// Wide output.
    pub y: BufferId,
    /// Whether nothing of `y` is written yet.
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
    /// Which columns.
    pub columns: Columns,
    /// Wide gradient.
    pub dy: BufferId,
    /// Narrow gradient.
    pub dx: BufferId,
    /// Replace or accumulate.
    pub write: Write,
}

impl Backward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.dy, Access::Read), (self.dx, self.write.access())]
    }
}
