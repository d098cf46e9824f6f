//! Calls of a concatenation, one per input.

use crate::device::buffer::BufferId;
use crate::device::call::concat::{Backward, Columns, Forward};
use crate::graph::NodeId;
use crate::graph::ops::concat::Op;
use crate::program::emitter::{Emit, Emitter};

impl Op {
    fn columns(e: &Emitter<'_>, id: NodeId) -> Vec<Columns> {
        let of = e.shape(id).channels;
        let mut start = 0;
        let mut columns = Vec::new();
        for index in 0..e.inputs(id) {
            let width = e.input(id, index).1.channels;
            columns.push(Columns { start, width, of });
            start += width;
        }
        columns
    }
}

impl Emit for Op {
    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let y = e.output(id);
        for (index, columns) in Self::columns(e, id).into_iter().enumerate() {
            let (x, _) = e.input(id, index);
            // The first copy starts the lifetime of the buffer; the others fill the rest.
            let first = index == 0;
            e.call(id, Forward { columns, x, y, first });
        }
    }

    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, dy: BufferId) {
        for (index, columns) in Self::columns(e, id).into_iter().enumerate() {
            if let Some((dx, write)) = e.input_gradient(id, index) {
                e.call(id, Backward { columns, dy, dx, write });
            }
        }
    }
}
