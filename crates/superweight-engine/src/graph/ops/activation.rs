//! ReLU and ReLU6, as a node or fused into the operation before (batch norm, residual add).
//!
//! The gradient passes where the *output* is strictly between the bounds. So the backward pass
//! reads `y`, never `x`.

use crate::graph::ops::operation::{Keeps, Operation};

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
    pub(crate) activation: Activation,
}

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "activation"
    }

    fn keeps(&self) -> Keeps {
        Keeps { inputs: false, output: true }
    }
}
