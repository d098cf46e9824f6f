//! Softmax over channels, as a node. Its probabilities can be read, or can be the target of another
//! graph's loss.

use crate::graph::ops::operation::{Keeps, Operation};

#[derive(Clone, Debug)]
pub(crate) struct Op;

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "softmax"
    }

    fn keeps(&self) -> Keeps {
        Keeps { inputs: false, output: true }
    }
}
