//! Kernel call of an external gradient.

use crate::device::buffer::{Access, BufferId, Write};

/// `dx (+)= weight · x`.
#[derive(Clone, Debug)]
pub struct Call {
    /// Factor.
    pub weight: f32,
    /// Gradient from outside.
    pub x: BufferId,
    /// Gradient of the node.
    pub dx: BufferId,
    /// Whether the output is overwritten or accumulated.
    pub write: Write,
}

impl Call {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.x, Access::Read), (self.dx, self.write.access())]
    }
}
