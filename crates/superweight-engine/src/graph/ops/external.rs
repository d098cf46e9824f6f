//! External gradient: `dL/dx` of a loss computed elsewhere, such as a loss on the mean of several
//! members. The backward pass reads it from the input/output storage.

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
