//! Call of an external gradient.

use crate::device::buffer::BufferId;
use crate::device::call::external::Call;
use crate::graph::NodeId;
use crate::graph::ops::external::Op;
use crate::program::emitter::{Emit, Emitter};

impl Emit for Op {
    fn forward(&self, _e: &mut Emitter<'_>, _id: NodeId) {}

    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, gradient: BufferId) {
        if let Some((dx, write)) = e.input_gradient(id, 0) {
            e.call(id, Call { weight: self.weight, x: gradient, dx, write });
        }
    }
}
