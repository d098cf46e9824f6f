//! Builds an [`Architecture`] node by node and derives every shape.
//!
//! A family's file then reads like the PyTorch module of the same network.

use super::image::ImageShape;
use super::name::ArchName;
use super::types::{Activation, Architecture, Node, NodeId, Op, Tensor, TensorId, TensorKind};

/// A network under construction.
pub(super) struct Builder {
    name: ArchName,
    input: ImageShape,
    nodes: Vec<Node>,
    tensors: Vec<Tensor>,
}

/// Kernel, stride and groups of a convolution. Padding keeps the size at stride 1.
#[derive(Clone, Copy)]
pub(super) struct Window {
    kernel: usize,
    stride: usize,
    groups: usize,
}

impl Window {
    /// A square kernel in one group.
    pub fn new(kernel: usize, stride: usize) -> Self {
        Self { kernel, stride, groups: 1 }
    }

    /// The same window with this number of groups.
    pub fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }
}

impl Builder {
    /// Starts a network; also returns the node of the input.
    pub fn new(name: ArchName, input: ImageShape) -> (Self, NodeId) {
        let node = Node { name: "input".into(), op: Op::Input, inputs: vec![], shape: input };
        (Self { name, input, nodes: vec![node], tensors: vec![] }, NodeId(0))
    }

    /// Number of channels of a node's value.
    pub fn channels(&self, node: NodeId) -> usize {
        self.nodes[node.0].shape.channels
    }

    /// Appends a convolution without bias to `out` channels.
    pub fn conv(&mut self, name: &str, from: NodeId, out: usize, window: Window) -> NodeId {
        let Window { kernel, stride, groups } = window;
        let padding = (kernel - 1) / 2;
        let shape = self.nodes[from.0].shape;
        let extent = |n: usize| (n + 2 * padding - kernel) / stride + 1;
        let dims = vec![out, shape.channels / groups, kernel, kernel];
        let weight = self.tensor(name, "weight", TensorKind::ConvWeight, dims);
        let op = Op::Conv { weight, kernel: [kernel; 2], stride, padding, groups };
        let shape =
            ImageShape { channels: out, height: extent(shape.height), width: extent(shape.width) };
        self.push(name, op, vec![from], shape)
    }

    /// Appends a batch norm and an activation.
    pub fn batch_norm(&mut self, name: &str, from: NodeId, activation: Activation) -> NodeId {
        let shape = self.nodes[from.0].shape;
        let scale = self.tensor(name, "weight", TensorKind::NormScale, vec![shape.channels]);
        let shift = self.tensor(name, "bias", TensorKind::NormShift, vec![shape.channels]);
        self.push(name, Op::BatchNorm { scale, shift, activation }, vec![from], shape)
    }

    /// Appends the sum of two nodes and an activation.
    pub fn add(&mut self, name: &str, a: NodeId, b: NodeId, activation: Activation) -> NodeId {
        let shape = self.nodes[a.0].shape;
        assert_eq!(shape, self.nodes[b.0].shape, "{name} adds two values of the same shape");
        self.push(name, Op::Add { activation }, vec![a, b], shape)
    }

    /// Appends a max pool.
    pub fn max_pool(&mut self, name: &str, from: NodeId, kernel: usize, stride: usize) -> NodeId {
        let padding = (kernel - 1) / 2;
        let shape = self.nodes[from.0].shape;
        let extent = |n: usize| (n + 2 * padding - kernel) / stride + 1;
        let shape =
            ImageShape { height: extent(shape.height), width: extent(shape.width), ..shape };
        self.push(name, Op::MaxPool { kernel, stride, padding }, vec![from], shape)
    }

    /// Appends the concatenation of nodes along the channels.
    pub fn concat(&mut self, name: &str, inputs: Vec<NodeId>) -> NodeId {
        let channels = inputs.iter().map(|&input| self.channels(input)).sum();
        let shape = ImageShape { channels, ..self.nodes[inputs[0].0].shape };
        for input in &inputs {
            let beside = ImageShape { channels, ..self.nodes[input.0].shape };
            assert_eq!(shape, beside, "{name} concatenates values of the same height and width");
        }
        self.push(name, Op::Concat, inputs, shape)
    }

    /// Appends a global average pool and a linear classifier; returns the node of the logits.
    pub fn exit(&mut self, pool: &str, linear: &str, from: NodeId, classes: usize) -> NodeId {
        let channels = self.channels(from);
        let shape = ImageShape { channels, height: 1, width: 1 };
        let pooled = self.push(pool, Op::GlobalAveragePool, vec![from], shape);
        let weight =
            self.tensor(linear, "weight", TensorKind::LinearWeight, vec![classes, channels]);
        let bias = self.tensor(linear, "bias", TensorKind::LinearBias, vec![classes]);
        let shape = ImageShape { channels: classes, height: 1, width: 1 };
        self.push(linear, Op::Linear { weight, bias }, vec![pooled], shape)
    }

    /// Returns the network whose logits are at these nodes. The last of them must be the last node.
    pub fn finish(self, exits: Vec<NodeId>, classes: usize) -> Architecture {
        let Self { name, input, nodes, tensors } = self;
        assert_eq!(exits.last(), Some(&NodeId(nodes.len() - 1)), "{name} ends in an exit");
        Architecture { name, input, classes, heads: 1, nodes, exits, tensors }
    }

    fn push(&mut self, name: &str, op: Op, inputs: Vec<NodeId>, shape: ImageShape) -> NodeId {
        self.nodes.push(Node { name: name.to_owned(), op, inputs, shape });
        NodeId(self.nodes.len() - 1)
    }

    fn tensor(
        &mut self,
        module: &str,
        leaf: &str,
        kind: TensorKind,
        shape: Vec<usize>,
    ) -> TensorId {
        self.tensors.push(Tensor { name: format!("{module}.{leaf}"), kind, shape });
        TensorId(self.tensors.len() - 1)
    }
}
