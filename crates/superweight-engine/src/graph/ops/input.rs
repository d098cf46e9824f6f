//! Input of a graph. It needs no kernel: its value is in the input/output storage.

use crate::graph::ops::operation::Operation;

#[derive(Clone, Debug)]
pub(crate) struct Input;

impl Operation for Input {
    fn kind(&self) -> &'static str {
        "input"
    }
}
