//! Call of a cross-entropy loss, which computes loss and gradient in the forward pass.

use crate::device::buffer::BufferId;
use crate::device::call::loss::{Call, TargetBuffer};
use crate::graph::NodeId;
use crate::graph::ops::loss::{Op, Target};
use crate::program::emitter::{Emit, Emitter};

impl Emit for Op {
    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let (logits, input) = e.input(id, 0);
        let target = match &self.options.target {
            Target::Classes(name) => TargetBuffer::Classes(e.io_classes(name, self.options.heads)),
            Target::Probabilities(name) => {
                TargetBuffer::Probabilities(e.io_activations(name, input.channels))
            }
        };
        let call = Call {
            rows: e.batch() * self.options.heads,
            segments: self.options.segments,
            heads: self.options.heads,
            classes: input.channels / self.options.heads,
            logits,
            target,
            control: e.control(),
            metrics: e.io_metrics(id),
            smoothing: self.options.smoothing,
            weight: self.options.weight,
            gradient: if e.backward() { e.input_gradient(id, 0) } else { None },
        };
        e.call(id, call);
    }

    fn backward(&self, _e: &mut Emitter<'_>, _id: NodeId, _dy: BufferId) {}
}
