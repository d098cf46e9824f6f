//! Concatenation along channels. Each input is copied into its columns of the output, with one call
//! per input.

use crate::graph::ops::operation::Operation;

#[derive(Clone, Debug)]
pub(crate) struct Op;

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "concat"
    }
}
