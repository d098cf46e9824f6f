//! Kernel calls of elementwise activations.

use crate::device::buffer::{Access, BufferId, InputGradient};
use crate::graph::ops::activation::Activation;

/// `y = act(x)`.
#[derive(Clone, Debug)]
pub struct Forward {
    /// The activation.
    pub activation: Activation,
    /// Input. `None` if the input is already in `y`.
    pub x: Option<BufferId>,
    /// Output.
    pub y: BufferId,
}

impl Forward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        match self.x {
            Some(x) => vec![(x, Access::Read), (self.y, Access::Write)],
            None => vec![(self.y, Access::Update)],
        }
    }
}

/// `dx (+)= dy` where the output lies between the bounds, else 0.
#[derive(Clone, Debug)]
pub struct Backward {
    /// The activation.
    pub activation: Activation,
    /// Output of the forward pass.
    pub y: BufferId,
    /// Gradient of the output.
    pub dy: BufferId,
    /// Gradient of the input.
    pub dx: InputGradient,
}

impl Backward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        match self.dx {
            InputGradient::InPlace => vec![(self.y, Access::Read), (self.dy, Access::Update)],
            InputGradient::To(dx, write) => {
                vec![(self.y, Access::Read), (self.dy, Access::Read), (dx, write.access())]
            }
        }
    }
}
