//! Softmax over channels, as a node of its own: probabilities to read, or to teach another graph with.

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
