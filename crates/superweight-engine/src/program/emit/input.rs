//! An input needs no calls: its value is in the input/output storage.

use crate::device::buffer::BufferId;
use crate::graph::NodeId;
use crate::graph::ops::input::Input;
use crate::program::emitter::{Emit, Emitter};

impl Emit for Input {
    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let buffer = e.io_buffer_of_input(id);
        e.set_value(id, buffer);
    }

    fn backward(&self, _e: &mut Emitter<'_>, _id: NodeId, _dy: BufferId) {}
}
