//! State of the translation from a graph to kernel calls. Buffers have sizes here, but no addresses
//! yet.
//!
//! The emitter decides how to save memory traffic, for every device alike:
//!
//! *Forward*: a node may reuse the buffer of an input that has no later reader. A convolution or
//! batch norm whose only reader is a residual add accumulates into the sum ([`Destination`]).
//!
//! *Backward*: the gradient of a node is a buffer with an owner count. A residual add passes its
//! gradient to both inputs without a copy. The buffer is copied only if a contribution would modify
//! it while another node still owns it. In a residual block this never happens: the branch reads
//! the gradient before the trunk adds to it.

use super::layout::{CONTROL, Layout};
use super::settings::{NormMode, Settings};
use crate::device::buffer::{BufferId, Element, InputGradient, METRICS_LEN, Region, Space, Write};
use crate::device::call::Call;
use crate::device::call::add::{Copy, Sum};
use crate::device::call::batch_norm::Moments;
use crate::graph::ops::Op;
use crate::graph::ops::activation::Activation;
use crate::graph::{Graph, NodeId, SlotId, SlotKind};
use crate::shape::Shape;

/// A buffer in the arena, which has no offset yet, or one in another storage.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Buffer {
    Arena { element: Element, len: usize },
    Fixed(Region),
}

/// Kernel calls of an operation.
pub(crate) trait Emit {
    /// Emits the calls of the forward pass.
    fn forward(&self, e: &mut Emitter<'_>, id: NodeId);

    /// Emits the calls of the backward pass, given the gradient of the output.
    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, dy: BufferId);
}

/// A kernel call and the node it belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Emitted {
    pub call: Call,
    pub node: NodeId,
    pub backward: bool,
}

/// Buffer that a node's output is written to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Destination {
    /// A new buffer.
    Own(BufferId),
    /// The buffer of its input.
    InPlace(BufferId),
    /// A residual sum: `y = activation(output + residual)`. With `None` the residual is already in
    /// `y`.
    Residual { add: NodeId, residual: Option<BufferId>, y: BufferId, activation: Activation },
}

/// Data that a forward pass keeps for the backward pass, besides activations.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept {
    Moments(Moments),
    Positions(BufferId),
}

/// State of an add that one of its inputs accumulates into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accumulated {
    pub sum: BufferId,
    pub activation_done: bool,
}

/// Translates one graph to kernel calls.
pub(crate) struct Emitter<'a> {
    pub(super) graph: &'a Graph,
    layout: &'a Layout,
    pub(super) settings: Settings,
    pub(super) buffers: Vec<Buffer>,
    pub(super) calls: Vec<Emitted>,
    /// Whether a loss or output depends on each node.
    pub(super) live: Vec<bool>,
    /// Whether each node needs a gradient, because a trainable tensor or requested input gradient
    /// precedes it.
    needs_gradient: Vec<bool>,
    /// Live nodes that read each node.
    readers: Vec<Vec<NodeId>>,
    /// The add that each node accumulates into, if any.
    accumulates_into: Vec<Option<NodeId>>,
    values: Vec<Option<BufferId>>,
    pub(super) gradients: Vec<Option<BufferId>>,
    /// Number of nodes that use each buffer as their gradient.
    pub(super) owners: Vec<u32>,
    kept: Vec<Option<Kept>>,
    accumulated: Vec<Option<Accumulated>>,
    parameters: Vec<BufferId>,
    parameter_gradients: Vec<Option<BufferId>>,
    pub(super) in_backward: bool,
}

impl<'a> Emitter<'a> {
    /// Prepares the translation. The caller has checked that `layout` has every tensor of the
    /// graph.
    pub(super) fn new(graph: &'a Graph, layout: &'a Layout, settings: Settings) -> Self {
        let n = graph.nodes.len();
        let mut e = Self {
            graph,
            layout,
            settings,
            buffers: Vec::new(),
            calls: Vec::new(),
            live: live_nodes(graph),
            needs_gradient: vec![false; n],
            readers: vec![Vec::new(); n],
            accumulates_into: vec![None; n],
            values: vec![None; n],
            gradients: vec![None; n],
            owners: Vec::new(),
            kept: vec![None; n],
            accumulated: vec![None; n],
            parameters: Vec::new(),
            parameter_gradients: Vec::new(),
            in_backward: false,
        };
        for slot in &graph.slots {
            let region = layout.slot_region(slot);
            let buffer = e.fixed(region);
            e.parameters.push(buffer);
            let trained = settings.backward && slot.kind != SlotKind::Statistic;
            let gradient = trained.then(|| e.fixed(Region { space: Space::Gradients, ..region }));
            e.parameter_gradients.push(gradient);
        }
        for (i, node) in graph.nodes.iter().enumerate() {
            let from_inputs = node.inputs.iter().any(|input| e.needs_gradient[input.0]);
            let own = !node.op.operation().parameters().is_empty();
            let wanted = settings.input_gradients && matches!(node.op, Op::Input(_));
            e.needs_gradient[i] = from_inputs || own || wanted;
            if e.live[i] {
                node.inputs.iter().for_each(|input| e.readers[input.0].push(NodeId(i)));
            }
        }
        for i in 0..n {
            e.accumulates_into[i] = e.find_accumulation(NodeId(i));
        }
        e
    }

    /// The add that node `id` can accumulate into. It must be its only reader, and its other input
    /// must be computed earlier.
    fn find_accumulation(&self, id: NodeId) -> Option<NodeId> {
        let &[add] = self.readers[id.0].as_slice() else { return None };
        let (node, sum) = (self.graph.node(id), self.graph.node(add));
        let other = *sum.inputs.iter().find(|input| **input != id)?;
        let fits = matches!(sum.op, Op::Add(_)) && node.op.operation().can_accumulate();
        (fits && other < id && self.graph.outputs[id.0].is_none()).then_some(add)
    }

    /// Whether `reader` is the last node that needs the value of `input` once `now` is emitted.
    fn is_last_use(&self, input: NodeId, reader: NodeId, now: NodeId) -> bool {
        let readers = &self.readers[input.0];
        let last = readers.iter().all(|r| *r == reader || *r < now)
            && readers.iter().filter(|r| **r == reader).count() == 1;
        let kept = self.settings.backward
            && (self.graph.node(input).op.operation().keeps().output
                || readers.iter().any(|r| self.graph.node(*r).op.operation().keeps().inputs));
        let in_arena =
            self.values[input.0].is_some_and(|b| matches!(self.buffers[b.0], Buffer::Arena { .. }));
        last && !kept && in_arena && self.graph.outputs[reader.0].is_none()
    }

    // Queries for the forward and the backward pass.

    pub(crate) fn batch(&self) -> usize {
        self.settings.batch
    }

    pub(crate) fn norm_mode(&self) -> NormMode {
        self.settings.norm
    }

    pub(crate) fn backward(&self) -> bool {
        self.settings.backward
    }

    pub(crate) fn shape(&self, id: NodeId) -> Shape {
        self.graph.node(id).shape
    }

    pub(crate) fn inputs(&self, id: NodeId) -> usize {
        self.graph.node(id).inputs.len()
    }

    /// Value and shape of input number `index`.
    pub(crate) fn input(&self, id: NodeId, index: usize) -> (BufferId, Shape) {
        let input = self.graph.node(id).inputs[index];
        (self.value(input), self.shape(input))
    }

    pub(crate) fn value(&self, id: NodeId) -> BufferId {
        self.values[id.0].expect("a node's value is emitted before it is read")
    }

    pub(crate) fn parameter(&self, slot: SlotId) -> BufferId {
        self.parameters[slot.0]
    }

    pub(crate) fn statistic(&self, slot: SlotId) -> BufferId {
        self.parameters[slot.0]
    }

    pub(crate) fn call(&mut self, node: NodeId, call: impl Into<Call>) {
        let backward = self.in_backward;
        self.calls.push(Emitted { call: call.into(), node, backward });
    }

    pub(crate) fn arena(&mut self, element: Element, len: usize) -> BufferId {
        self.push(Buffer::Arena { element, len })
    }

    fn fixed(&mut self, region: Region) -> BufferId {
        self.push(Buffer::Fixed(region))
    }

    fn push(&mut self, buffer: Buffer) -> BufferId {
        self.buffers.push(buffer);
        self.owners.push(0);
        BufferId(self.buffers.len() - 1)
    }

    /// A new arena buffer of the same size and element.
    pub(crate) fn like(&mut self, buffer: BufferId) -> BufferId {
        let (Buffer::Arena { element, len } | Buffer::Fixed(Region { element, len, .. })) =
            self.buffers[buffer.0];
        self.arena(element, len)
    }

    pub(super) fn io(&mut self, name: &str, len: usize) -> BufferId {
        let region = self.layout.io(name).expect("the layout has every name of the graph");
        self.fixed(Region { len, ..region })
    }

    pub(crate) fn control(&mut self) -> BufferId {
        self.io(CONTROL, 2)
    }

    pub(crate) fn io_classes(&mut self, name: &str, heads: usize) -> BufferId {
        self.io(name, self.batch() * heads)
    }

    pub(crate) fn io_activations(&mut self, name: &str, channels: usize) -> BufferId {
        self.io(name, self.batch() * channels)
    }

    pub(crate) fn io_metrics(&mut self, id: NodeId) -> BufferId {
        let graph = self.graph;
        self.io(&graph.node(id).name, METRICS_LEN)
    }

    pub(crate) fn io_buffer_of_input(&mut self, id: NodeId) -> BufferId {
        let node = self.graph.node(id);
        self.io(&node.name, self.batch() * node.shape.len())
    }

    // Forward pass.

    pub(crate) fn set_value(&mut self, id: NodeId, buffer: BufferId) {
        self.values[id.0] = Some(buffer);
    }

    /// A new buffer for a node's value: in the input/output storage if the node is an output,
    /// otherwise in the arena.
    pub(crate) fn output(&mut self, id: NodeId) -> BufferId {
        let len = self.batch() * self.shape(id).len();
        let buffer = match &self.graph.outputs[id.0] {
            Some(name) => self.io(name, len),
            None => self.arena(Element::Activation, len),
        };
        self.set_value(id, buffer);
        buffer
    }

    /// Reuses the buffer of input `index` for the node's value, if nothing else needs that input.
    pub(crate) fn take_over(&mut self, id: NodeId, index: usize) -> Option<BufferId> {
        let input = self.graph.node(id).inputs[index];
        self.is_last_use(input, id, id).then(|| {
            let buffer = self.value(input);
            self.set_value(id, buffer);
            buffer
        })
    }

    /// Where an elementwise or accumulating operation writes its output.
    pub(crate) fn destination(&mut self, id: NodeId) -> Destination {
        if let Some(add) = self.accumulates_into[id.0] {
            return self.residual_destination(id, add);
        }
        match self.take_over(id, 0) {
            Some(y) => Destination::InPlace(y),
            None => Destination::Own(self.output(id)),
        }
    }

    fn residual_destination(&mut self, id: NodeId, add: NodeId) -> Destination {
        let sum = self.graph.node(add);
        let Op::Add(op) = &sum.op else { unreachable!("only an add can be accumulated into") };
        let other = *sum.inputs.iter().find(|input| **input != id).expect("an add has two inputs");
        let (residual, y) = if self.is_last_use(other, add, id) {
            let y = self.value(other);
            self.set_value(add, y);
            (None, y)
        } else {
            (Some(self.value(other)), self.output(add))
        };
        self.accumulated[add.0] = Some(Accumulated { sum: y, activation_done: false });
        Destination::Residual { add, residual, y, activation: op.activation }
    }

    /// Where a convolution writes its output. It never overwrites its input.
    pub(crate) fn accumulating_output(&mut self, id: NodeId) -> (BufferId, Write) {
        let Some(add) = self.accumulates_into[id.0] else { return (self.output(id), Write::Set) };
        let Destination::Residual { residual, y, .. } = self.residual_destination(id, add) else {
            unreachable!("the destination inside an add is a residual")
        };
        if let Some(x) = residual {
            self.call(id, Copy { x, y });
        }
        (y, Write::Add)
    }

    /// Claims the activation of the sum that `id` accumulates into. The caller must then apply it.
    pub(crate) fn take_activation_of_sum(&mut self, id: NodeId) -> Activation {
        let Some(add) = self.accumulates_into[id.0] else { return Activation::None };
        let Op::Add(op) = &self.graph.node(add).op else {
            unreachable!("only an add can be accumulated into")
        };
        self.activation_done(add);
        op.activation
    }

    pub(crate) fn accumulated(&self, add: NodeId) -> Option<Accumulated> {
        self.accumulated[add.0]
    }

    pub(crate) fn activation_done(&mut self, add: NodeId) {
        self.accumulated[add.0].as_mut().expect("it was accumulated into").activation_done = true;
    }

    /// Whether the node's backward pass will run.
    pub(crate) fn keeps_for_backward(&self, id: NodeId) -> bool {
        self.settings.backward && self.needs_gradient[id.0]
    }

    pub(crate) fn keep(&mut self, id: NodeId, kept: Kept) {
        self.kept[id.0] = Some(kept);
    }

    // Backward pass.

    pub(crate) fn kept(&self, id: NodeId) -> Kept {
        self.kept[id.0].expect("the forward pass keeps its data")
    }

    pub(crate) fn parameter_gradient(&self, slot: SlotId) -> (BufferId, Write) {
        let buffer = self.parameter_gradients[slot.0].expect("only trained slots have gradients");
        (buffer, if self.settings.accumulate { Write::Add } else { Write::Set })
    }

    /// Whether exactly one node owns this gradient buffer.
    pub(crate) fn is_exclusive(&self, gradient: BufferId) -> bool {
        self.owners[gradient.0] == 1 && matches!(self.buffers[gradient.0], Buffer::Arena { .. })
    }

    /// Where to write the gradient of input `index`, or `None` if it is not needed.
    pub(crate) fn input_gradient(&mut self, id: NodeId, index: usize) -> Option<(BufferId, Write)> {
        let input = self.graph.node(id).inputs[index];
        if !self.needs_gradient[input.0] {
            return None;
        }
        let len = self.batch() * self.shape(input).len();
        let Some(present) = self.gradients[input.0] else {
            let fresh = self.arena(Element::Activation, len);
            self.own_gradient(input, fresh);
            return Some((fresh, Write::Set));
        };
        if self.is_exclusive(present) {
            return Some((present, Write::Add));
        }
        let fresh = self.like(present);
        self.call(id, Copy { x: present, y: fresh });
        self.owners[present.0] -= 1;
        self.own_gradient(input, fresh);
        Some((fresh, Write::Add))
    }

    /// Like [`Emitter::input_gradient`], for an elementwise operation, which may overwrite the
    /// gradient of its output.
    pub(crate) fn input_gradient_in_place(
        &mut self,
        id: NodeId,
        index: usize,
        dy: BufferId,
    ) -> Option<InputGradient> {
        let input = self.graph.node(id).inputs[index];
        let free = self.gradients[input.0].is_none() && self.is_exclusive(dy);
        if free && self.needs_gradient[input.0] {
            self.own_gradient(input, dy);
            return Some(InputGradient::InPlace);
        }
        self.input_gradient(id, index).map(|(dx, write)| InputGradient::To(dx, write))
    }

    /// Uses a whole buffer as a contribution to the gradient of input `index`, without a copy where
    /// possible.
    pub(crate) fn share_gradient(&mut self, id: NodeId, index: usize, gradient: BufferId) {
        let input = self.graph.node(id).inputs[index];
        if self.needs_gradient[input.0] && self.gradients[input.0].is_none() {
            return self.own_gradient(input, gradient);
        }
        if let Some((y, _)) = self.input_gradient(id, index) {
            self.call(id, Sum { lhs: None, rhs: gradient, y, activation: Activation::None });
        }
    }

    fn own_gradient(&mut self, node: NodeId, gradient: BufferId) {
        self.gradients[node.0] = Some(gradient);
        self.owners[gradient.0] += 1;
    }
}

/// Marks the nodes that a loss or output depends on.
fn live_nodes(graph: &Graph) -> Vec<bool> {
    let mut live: Vec<bool> = (graph.nodes.iter().zip(&graph.outputs))
        .map(|(node, output)| node.op.operation().is_loss() || output.is_some())
        .collect();
    for (i, node) in graph.nodes.iter().enumerate().rev() {
        if live[i] {
            node.inputs.iter().for_each(|input| live[input.0] = true);
        }
    }
    live
}
