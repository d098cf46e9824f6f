//! Kernel calls of residual adds, and the copy and fill that the emitter inserts.

use crate::device::buffer::{Access, BufferId};
use crate::graph::ops::activation::Activation;

/// `y = act(lhs + rhs)`; without `lhs`, `y = act(y + rhs)`.
#[derive(Clone, Debug)]
pub struct Sum {
    /// First summand. `None` if it is already in `y`.
    pub lhs: Option<BufferId>,
    /// Second summand.
    pub rhs: BufferId,
    /// Output.
    pub y: BufferId,
    /// Activation applied to the sum.
    pub activation: Activation,
}

impl Sum {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        let mut all = vec![(self.rhs, Access::Read)];
        all.extend(self.lhs.map(|lhs| (lhs, Access::Read)));
        all.push((self.y, if self.lhs.is_some() { Access::Write } else { Access::Update }));
        all
    }
}

/// `y = x`.
#[derive(Clone, Debug)]
pub struct Copy {
    /// Source.
    pub x: BufferId,
    /// Destination.
    pub y: BufferId,
}

impl Copy {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.x, Access::Read), (self.y, Access::Write)]
    }
}

/// `y = 0`.
#[derive(Clone, Debug)]
pub struct Fill {
    /// Buffer to clear.
    pub y: BufferId,
}

impl Fill {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.y, Access::Write)]
    }
}
