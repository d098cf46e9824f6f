//! Kernel calls of `external`.

use crate::device::buffer::{Access, BufferId, Write};

/// `dx (+)= weight · x`.
#[derive(Clone, Debug)]
pub struct Call {
    /// The factor.
    pub weight: f32,
    /// The gradient given.
    pub x: BufferId,
    /// Where it goes.
    pub dx: BufferId,
    /// Replace or accumulate.
    pub write: Write,
}

impl Call {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.x, Access::Read), (self.dx, self.write.access())]
    }
}
