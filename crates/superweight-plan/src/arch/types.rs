//! The parts of an architecture: operations, tensors and their counts.

use serde::Serialize;

use super::image::ImageShape;
use super::name::ArchName;

/// Position of a node in [`Architecture::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub usize);

/// Position of a tensor in [`Architecture::tensors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub usize);

/// What is applied to a value elementwise, fused into the operation that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// Nothing.
    None,
    /// max(x, 0).
    Relu,
    /// min(max(x, 0), 6).
    Relu6,
}

/// One operation. Its inputs are [`Node::inputs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// The image batch.
    Input,
    /// Convolution without bias.
    Conv {
        /// Weight, OIHW.
        weight: TensorId,
        /// Kernel height and width.
        kernel: [usize; 2],
        /// Stride, the same in both directions.
        stride: usize,
        /// Zero padding, the same on all sides.
        padding: usize,
        /// Groups; equal to the channels for a depthwise convolution.
        groups: usize,
    },
    /// Batch normalisation over batch, height and width, then an activation.
    BatchNorm {
        /// γ, one number per channel.
        scale: TensorId,
        /// β, one number per channel.
        shift: TensorId,
        /// Applied to the result.
        activation: Activation,
    },
    /// Sum of two values of one shape, then an activation.
    Add {
        /// Applied to the result.
        activation: Activation,
    },
    /// Values of one height and width side by side, channels after channels.
    Concat,
    /// Maximum over windows.
    MaxPool {
        /// Window height and width.
        kernel: usize,
        /// Stride.
        stride: usize,
        /// Padding on all sides, never the maximum.
        padding: usize,
    },
    /// Mean over all positions.
    GlobalAveragePool,
    /// Fully connected layer with bias, on `[channels, 1, 1]`.
    Linear {
        /// Weight, `[out, in]`.
        weight: TensorId,
        /// Bias, `[out]`.
        bias: TensorId,
    },
}

/// An operation at its place in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Module path, e.g. `block1.layer.0.conv1`.
    pub name: String,
    /// What is computed.
    pub op: Op,
    /// From which earlier nodes.
    pub inputs: Vec<NodeId>,
    /// Shape of the result for one image.
    pub shape: ImageShape,
}

/// What a trainable tensor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorKind {
    /// Weight of a convolution, OIHW.
    ConvWeight,
    /// Weight of a linear layer, `[out, in]`.
    LinearWeight,
    /// Bias of a linear layer.
    LinearBias,
    /// γ of a batch norm.
    NormScale,
    /// β of a batch norm.
    NormShift,
}

/// A trainable tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// PyTorch's name, e.g. `block1.layer.0.conv1.weight`.
    pub name: String,
    /// What it is for.
    pub kind: TensorKind,
    /// OIHW, `[out, in]` or `[channels]`.
    pub shape: Vec<usize>,
}

impl Tensor {
    /// Numbers in it.
    pub fn len(&self) -> u64 {
        self.shape.iter().map(|&d| d as u64).product()
    }

    /// Whether it holds no number.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Trainable numbers by part, and the work of one forward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Convolution weights.
    pub convolutions: u64,
    /// Batch-norm scales and shifts.
    pub batch_norm: u64,
    /// Linear weights and biases.
    pub classifier: u64,
    /// Multiply-adds of convolutions and linear layers for one image, at most `u64::MAX`.
    pub multiply_adds: u64,
}

impl Counts {
    /// All trainable numbers.
    pub fn total(&self) -> u64 {
        self.convolutions + self.batch_norm + self.classifier
    }
}

/// A network as data: `nodes[0]` is the input, the last node gives logits, and so do earlier exits. With several heads the
/// input has as many images side by side, as channels, and the logits are those of one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// The name it was built from.
    pub name: ArchName,
    /// Shape of one image.
    pub input: ImageShape,
    /// Classes told apart.
    pub classes: usize,
    /// Images answered at once.
    pub heads: usize,
    /// Operations in the order they run.
    pub nodes: Vec<Node>,
    /// The nodes that give logits, in their order; the last node is the last of them.
    pub exits: Vec<NodeId>,
    /// Trainable tensors in the order they are used.
    pub tensors: Vec<Tensor>,
}

impl Architecture {
    /// A tensor by id.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.0]
    }

    /// Exact counts by part.
    pub fn counts(&self) -> Counts {
        let multiply_adds = self.multiply_adds_to(self.exits.len() - 1);
        let mut counts = Counts { multiply_adds, ..Counts::default() };
        for tensor in &self.tensors {
            *match tensor.kind {
                TensorKind::ConvWeight => &mut counts.convolutions,
                TensorKind::NormScale | TensorKind::NormShift => &mut counts.batch_norm,
                TensorKind::LinearWeight | TensorKind::LinearBias => &mut counts.classifier,
            } += tensor.len();
        }
        counts
    }

    /// Multiply-adds for one image until it has been answered at an exit, those before it included; at most `u64::MAX`.
    pub fn multiply_adds_to(&self, exit: usize) -> u64 {
        let work = |node: &Node| match node.op {
            Op::Conv { weight, .. } | Op::Linear { weight, .. } => {
                let positions = (node.shape.height * node.shape.width) as u64;
                positions.saturating_mul(self.tensor(weight).len())
            }
            _ => 0,
        };
        self.nodes[..=self.exits[exit].0].iter().map(work).fold(0, u64::saturating_add)
    }
}
