//! ReLU and ReLU6: alone, or applied by the operation before (batch norm, residual add).
//!
//! The gradient passes where the *output* lies strictly between the bounds, so backward reads `y`, never `x`.

use super::{Keeps, Operation};
use crate::error::Error;
use crate::graph::{GraphBuilder, NodeId};
use crate::program::{Access, BufferId, Destination, Emitter, InputGradient};

/// An elementwise function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// The identity.
    #[default]
    None,
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, 0), 6)`.
    Relu6,
}

impl Activation {
    /// Lower and upper bound of the output.
    pub fn bounds(self) -> (f32, f32) {
        match self {
            Activation::None => (f32::NEG_INFINITY, f32::INFINITY),
            Activation::Relu => (0.0, f32::INFINITY),
            Activation::Relu6 => (0.0, 6.0),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Op {
    activation: Activation,
}

impl GraphBuilder {
    /// An activation on its own.
    pub fn activation(
        &mut self,
        name: impl Into<String>,
        x: NodeId,
        activation: Activation,
    ) -> Result<NodeId, Error> {
        let name = name.into();
        let shape = self.input_of(&name, x)?;
        self.push(name, super::Op::Activation(Op { activation }), vec![x], shape)
    }
}

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "activation"
    }

    fn keeps(&self) -> Keeps {
        Keeps { inputs: false, output: true }
    }

    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let (x, _) = e.input(id, 0);
        let (x, y) = match e.destination(id) {
            Destination::InPlace(y) => (None, y),
            Destination::Own(y) => (Some(x), y),
            Destination::Residual { .. } => unreachable!("an activation does not accumulate"),
        };
        e.call(id, Forward { activation: self.activation, x, y });
    }

    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, dy: BufferId) {
        let y = e.value(id);
        if let Some(dx) = e.input_gradient_in_place(id, 0, dy) {
            e.call(id, Backward { activation: self.activation, y, dy, dx });
        }
    }
}

/// `y = act(x)`.
#[derive(Clone, Debug)]
pub struct Forward {
    /// The function.
    pub activation: Activation,
    /// Input; `None`: it lies at the destination.
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
    /// The function.
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
