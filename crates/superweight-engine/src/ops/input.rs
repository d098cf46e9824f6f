//! Images from outside. No kernel: the value lies in the input/output storage.

use super::Operation;
use crate::graph::NodeId;
use crate::program::{BufferId, Emitter};

#[derive(Clone, Debug)]
pub(crate) struct Input;

impl Operation for Input {
    fn kind(&self) -> &'static str {
        "input"
    }

    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let buffer = e.io_buffer_of_input(id);
        e.set_value(id, buffer);
    }

    fn backward(&self, _e: &mut Emitter<'_>, _id: NodeId, _dy: BufferId) {}
}
