//! Kernel calls of `add`.

use crate::device::buffer::{Access, BufferId};
use crate::graph::ops::activation::Activation;

/// `y = act(lhs + rhs)`; without `lhs`, `y = act(y + rhs)`.
#[derive(Clone, Debug)]
pub struct Sum {
    /// First summand; `None`: it lies at the destination.
    pub lhs: Option<BufferId>,
    /// Second summand.
    pub rhs: BufferId,
    /// Sum.
    pub y: BufferId,
    /// Applied to the sum.
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
    /// From.
    pub x: BufferId,
    /// To.
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
    /// What is cleared.
    pub y: BufferId,
}

impl Fill {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.y, Access::Write)]
    }
}
