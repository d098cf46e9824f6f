//! Calls of a convolution.

use crate::device::buffer::BufferId;
use crate::device::call::conv::{BackwardData, BackwardWeight, Epilogue, Forward};
use crate::geometry::ConvGeometry;
use crate::graph::NodeId;
use crate::graph::ops::activation::Activation;
use crate::graph::ops::conv::Op;
use crate::graph::slot::SlotId;
use crate::program::emitter::{Emit, Emitter};

impl Emit for Op {
    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let (x, input) = e.input(id, 0);
        let geometry = self.geometry(input, e.batch());
        let (y, write) = e.accumulating_output(id);
        let epilogue = self.folded.map(|(bias, activation)| {
            let activation = match activation {
                Activation::None => e.take_activation_of_sum(id),
                own => own,
            };
            Epilogue { bias: e.parameter(bias), activation }
        });
        e.call(id, Forward { geometry, x, w: e.parameter(self.weight), y, write, epilogue });
    }

    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, dy: BufferId) {
        let (x, input) = e.input(id, 0);
        let geometry = self.geometry(input, e.batch());
        emit_backward(e, id, geometry, self.weight, x, dy);
    }
}

/// Emits the calls for the gradients of weight and input. The linear layer uses it too.
pub(super) fn emit_backward(
    e: &mut Emitter<'_>,
    id: NodeId,
    geometry: ConvGeometry,
    weight: SlotId,
    x: BufferId,
    dy: BufferId,
) {
    let (dw, write) = e.parameter_gradient(weight);
    e.call(id, BackwardWeight { geometry, x, dy, dw, write });
    if let Some((dx, write)) = e.input_gradient(id, 0) {
        e.call(id, BackwardData { geometry, dy, w: e.parameter(weight), dx, write });
    }
}
