//! Images from outside. No kernel: the value lies in the input/output storage.

use crate::graph::ops::operation::Operation;

#[derive(Clone, Debug)]
pub(crate) struct Input;

impl Operation for Input {
    fn kind(&self) -> &'static str {
        "input"
    }
}
