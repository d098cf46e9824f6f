//! Translates every operation to kernel calls, forward and backward.

mod activation;
mod add;
mod batch_norm;
mod channel_scale;
mod concat;
mod conv;
mod external;
mod input;
mod linear;
mod loss;
mod pool;
mod softmax;

use super::emitter::{Emit, Emitter};
use crate::device::call::add::{Copy, Fill};
use crate::graph::NodeId;
use crate::graph::ops::Op;

/// Emits the calls of the whole graph: the forward pass, then the backward pass in reverse order.
pub(super) fn emit(e: &mut Emitter<'_>) {
    let graph = e.graph;
    for (i, node) in graph.nodes.iter().enumerate() {
        if e.live[i] {
            emit_of(&node.op).forward(e, NodeId(i));
        }
    }
    if e.settings.backward {
        e.in_backward = true;
        (0..graph.nodes.len()).rev().for_each(|i| emit_backward(e, NodeId(i)));
    }
}

fn emit_backward(e: &mut Emitter<'_>, id: NodeId) {
    let node = e.graph.node(id);
    let op = node.op.operation();
    if op.is_loss() {
        if let Op::ExternalGradient(_) = node.op {
            let len = e.batch() * e.graph.first_input_shape(node).len();
            let given = e.io(&node.name, len);
            emit_of(&node.op).backward(e, id, given);
        }
        return;
    }
    let Some(dy) = e.gradients[id.0].take() else {
        // No loss depends on the node, so the gradients of its parameters are zero.
        if !e.settings.accumulate {
            for slot in op.parameters() {
                let (y, _) = e.parameter_gradient(slot);
                e.call(id, Fill { y });
            }
        }
        return;
    };
    if let Op::Input(_) = node.op {
        let y = e.io(&format!("{}.gradient", node.name), e.batch() * node.shape.len());
        e.call(id, Copy { x: dy, y });
    }
    emit_of(&node.op).backward(e, id, dy);
    e.owners[dy.0] -= 1;
}

/// Selects the implementation for an operation.
fn emit_of(op: &Op) -> &dyn Emit {
    match op {
        Op::Input(op) => op,
        Op::Conv(op) => op,
        Op::Linear(op) => op,
        Op::BatchNorm(op) => op,
        Op::ChannelScale(op) => op,
        Op::Activation(op) => op,
        Op::Add(op) => op,
        Op::Concat(op) => op,
        Op::Pool(op) => op,
        Op::GlobalAveragePool(op) => op,
        Op::Softmax(op) => op,
        Op::CrossEntropy(op) => op,
        Op::ExternalGradient(op) => op,
    }
}
