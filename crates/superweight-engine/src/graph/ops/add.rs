//! Residual add: `y = act(a + b)`.
//!
//! Usually no kernel of its own: when one side is a convolution or a batch norm used nowhere else, that kernel
//! accumulates into the sum (see `Emitter::destination`). The gradient of both sides is the gradient of the sum, shared
//! without a copy until someone adds to it.

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
