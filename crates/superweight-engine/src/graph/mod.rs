//! Description of a network: a list of nodes in execution order, each an operation on earlier
//! nodes.
//!
//! A graph has no batch size, device or address. **Weights are inputs of the graph**: every
//! operation names the tensors it reads ([`Slot`]), and a [`crate::Layout`] resolves the names.
//! Graphs are connected by names only. Two graphs with an input `images` read the same images. A
//! loss whose target is the name of another graph's output learns from that output.

mod builder;
pub(crate) mod check;
pub(crate) mod ops;
pub(crate) mod slot;

pub use builder::GraphBuilder;
pub use slot::{Slot, SlotId, SlotKind};

use crate::shape::Shape;
use ops::Op;

/// Identifies a node within its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) usize);

/// An operation and the nodes it reads.
#[derive(Clone, Debug)]
pub struct Node {
    pub(crate) name: String,
    pub(crate) op: Op,
    pub(crate) inputs: Vec<NodeId>,
    pub(crate) shape: Shape,
}

impl Node {
    /// Name of the node.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Shape of the node's value, for one image.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Kind of operation, in one or two words.
    pub fn kind(&self) -> &'static str {
        self.op.operation().kind()
    }
}

/// A finished network description. [`GraphBuilder`] builds it and [`crate::Program::compile`]
/// compiles it.
#[derive(Clone, Debug)]
pub struct Graph {
    pub(crate) name: String,
    pub(crate) nodes: Vec<Node>,
    pub(crate) slots: Vec<Slot>,
    /// Output name of each node, if it is an output.
    pub(crate) outputs: Vec<Option<String>>,
}

impl Graph {
    /// Name of the graph.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All nodes in execution order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All tensors that the graph reads but does not compute.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Number of multiply-adds of one forward pass for one image, counting convolutions and linear
    /// layers.
    pub fn multiply_adds(&self) -> u64 {
        let of = |node: &Node| node.op.operation().multiply_adds(self.first_input_shape(node));
        self.nodes.iter().map(of).sum()
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// Shape of the first input of a node. An input node has no inputs and returns its own shape.
    pub(crate) fn first_input_shape(&self, node: &Node) -> Shape {
        node.inputs.first().map_or(node.shape, |input| self.node(*input).shape)
    }
}
