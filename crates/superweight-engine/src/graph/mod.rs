//! The description of a network: nodes in the order they are computed, each an operation on earlier nodes.
//!
//! Nothing here knows a batch size, a device or an address. **Weights are inputs of the graph**: every operation
//! names the tensors it reads ([`Slot`]) and they are looked up by name in a [`crate::Layout`]. Names are the only
//! binding between graphs as well: two graphs with an input `images` read the same images, and a loss whose target
//! is called like another graph's output is taught by that graph.

mod builder;
pub(crate) mod check;
pub(crate) mod ops;
pub(crate) mod slot;

pub use builder::GraphBuilder;
pub use slot::{Slot, SlotId, SlotKind};

use crate::shape::Shape;
use ops::Op;

/// A node of one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) usize);

/// One operation and what it reads.
#[derive(Clone, Debug)]
pub struct Node {
    pub(crate) name: String,
    pub(crate) op: Op,
    pub(crate) inputs: Vec<NodeId>,
    pub(crate) shape: Shape,
}

impl Node {
    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Shape of what it computes, for one image.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The operation in one word.
    pub fn kind(&self) -> &'static str {
        self.op.operation().kind()
    }
}

/// A finished description. Built by [`GraphBuilder`], compiled by [`crate::Program::compile`].
#[derive(Clone, Debug)]
pub struct Graph {
    pub(crate) name: String,
    pub(crate) nodes: Vec<Node>,
    pub(crate) slots: Vec<Slot>,
    /// Name of each node that is an output.
    pub(crate) outputs: Vec<Option<String>>,
}

impl Graph {
    /// The graph's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The nodes in the order they are computed.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The tensors it reads.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Multiply-adds of one forward pass for one image, convolutions and linear layers.
    pub fn multiply_adds(&self) -> u64 {
        let of = |node: &Node| node.op.operation().multiply_adds(self.first_input_shape(node));
        self.nodes.iter().map(of).sum()
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// Shape of the first input of a node; an input node has none and gives its own shape.
    pub(crate) fn first_input_shape(&self, node: &Node) -> Shape {
        node.inputs.first().map_or(node.shape, |input| self.node(*input).shape)
    }
}
