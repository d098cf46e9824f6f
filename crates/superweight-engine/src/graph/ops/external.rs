//! A gradient from outside: `dL/dx` of a loss that this graph does not see, such as one on the average of several
//! members. It is read from the input/output storage when the backward pass starts.

use crate::graph::ops::operation::Operation;

#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) weight: f32,
}

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "external gradient"
    }

    fn is_loss(&self) -> bool {
        true
    }
}
