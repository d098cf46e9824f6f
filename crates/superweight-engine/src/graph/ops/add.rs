//! Residual add: `y = act(a + b)`.
//!
//! It usually needs no kernel. If one input is a convolution or batch norm that has no other
//! reader, that kernel accumulates into the sum (see `Emitter::destination`). Both inputs share the
//! gradient of the sum without a copy, until another contribution is added to it.

use crate::graph::ops::activation::Activation;
use crate::graph::ops::operation::{Keeps, Operation};

#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) activation: Activation,
}

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "add"
    }

    fn keeps(&self) -> Keeps {
        Keeps { inputs: false, output: self.activation != Activation::None }
    }
}
