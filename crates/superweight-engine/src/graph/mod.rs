//! The description of a network: nodes in the order they are computed, each an operation on earlier nodes.
//!
//! Nothing here knows a batch size, a device or an address. **Weights are inputs of the graph**: every operation
//! names the tensors it reads ([`Slot`]) and they are looked up by name in a [`crate::Layout`]. Names are the only
//! binding between graphs as well: two graphs with an input `images` read the same images, and a loss whose target
//! is called like another graph's output is taught by that graph.

mod builder;
pub(crate) mod check;
mod shape;

pub use builder::GraphBuilder;
pub use shape::Shape;

use crate::ops::Op;

/// A node of one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) usize);

/// A tensor that the graph reads and does not compute: a weight, a bias, a running mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub(crate) usize);

/// What a slot is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlotKind {
    /// Weight of a convolution (OHWI) or a linear layer: what a GEMM reads; a device may keep it in low precision.
    Weight,
    /// Trainable vector: bias, batch-norm scale and shift, per-segment channel scale.
    Vector,
    /// Running statistic: changed by the forward pass, without a gradient.
    Statistic,
}

/// Name, use and size of a tensor the graph reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// PyTorch's name: the node's name, then `.weight`, `.bias`, `.running_mean` or `.running_var`.
    pub name: String,
    /// What it is used for.
    pub kind: SlotKind,
    /// Dimensions in memory: OHWI for a convolution, `[out, in]`, `[channels]` or `[segments, channels]`.
    pub dims: Vec<usize>,
}

impl Slot {
    /// Numbers in the tensor.
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether it holds no numbers (it never does: sizes of zero are refused).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

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
        self.nodes.iter().map(|node| node.op.operation().multiply_adds(self, node)).sum()
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    pub(crate) fn input_shape(&self, node: &Node, index: usize) -> Shape {
        self.node(node.inputs[index]).shape
    }
}
