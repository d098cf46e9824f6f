//! [`Architecture`] and its parts: operations, nodes and tensors, with parameter counts.

use serde::Serialize;

use super::image::ImageShape;
use super::name::ArchName;

/// Identifies a node: its position in [`Architecture::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub usize);

/// Identifies a tensor: its position in [`Architecture::tensors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub usize);

/// Elementwise activation, fused into the operation whose result it is applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// No activation.
    None,
    /// ReLU, max(x, 0).
    Relu,
    /// ReLU6, min(max(x, 0), 6).
    Relu6,
}

/// Operation of a [`Node`], on the values of [`Node::inputs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// The batch of input images.
    Input,
    /// Convolution without bias.
    Conv {
        /// Weight `[out, in / groups, kh, kw]`.
        weight: TensorId,
        /// Kernel height and width.
        kernel: [usize; 2],
        /// Stride, the same in both directions.
        stride: usize,
        /// Zero padding, the same on all sides.
        padding: usize,
        /// Number of groups; equal to the channels for a depthwise convolution.
        groups: usize,
    },
    /// Batch normalisation over batch, height and width, then an activation.
    BatchNorm {
        /// Scale γ, one parameter per channel.
        scale: TensorId,
        /// Shift β, one parameter per channel.
        shift: TensorId,
        /// Applied to the result.
        activation: Activation,
    },
    /// Sum of two values of the same shape, then an activation.
    Add {
        /// Applied to the result.
        activation: Activation,
    },
    /// Concatenation of values along the channels. Heights and widths are equal.
    Concat,
    /// Max pooling.
    MaxPool {
        /// Height and width of the window.
        kernel: usize,
        /// Stride, the same in both directions.
        stride: usize,
        /// Padding on all sides; padded positions are never the maximum.
        padding: usize,
    },
    /// Mean over height and width.
    GlobalAveragePool,
    /// Fully connected layer with bias, applied to `[channels, 1, 1]`.
    Linear {
        /// Weight, `[out, in]`.
        weight: TensorId,
        /// Bias, `[out]`.
        bias: TensorId,
    },
}

/// One operation of a network with its inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// PyTorch's module path, e.g. `block1.layer.0.conv1`.
    pub name: String,
    /// Operation that computes the value.
    pub op: Op,
    /// Earlier nodes whose values the operation reads.
    pub inputs: Vec<NodeId>,
    /// Shape of the value for one image.
    pub shape: ImageShape,
}

/// Use of a trainable tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorKind {
    /// Weight of a convolution, `[out, in / groups, kh, kw]`.
    ConvWeight,
    /// Weight of a linear layer, `[out, in]`.
    LinearWeight,
    /// Bias of a linear layer.
    LinearBias,
    /// Scale γ of a batch norm.
    NormScale,
    /// Shift β of a batch norm.
    NormShift,
}

/// A trainable tensor of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tensor {
    /// PyTorch's name, e.g. `block1.layer.0.conv1.weight`.
    pub name: String,
    /// Use of the tensor.
    pub kind: TensorKind,
    /// `[out, in / groups, kh, kw]`, `[out, in]` or `[channels]`, by [`TensorKind`].
    pub shape: Vec<usize>,
}

impl Tensor {
    /// Number of parameters in the tensor.
    pub fn len(&self) -> u64 {
        self.shape.iter().map(|&d| d as u64).product()
    }

    /// Whether the tensor has no parameters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Parameter counts by part, and the cost of one forward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Parameters of convolution weights.
    pub convolutions: u64,
    /// Parameters of batch-norm scales and shifts.
    pub batch_norm: u64,
    /// Parameters of linear weights and biases.
    pub classifier: u64,
    /// Multiply-adds of convolutions and linear layers for one image; saturates at `u64::MAX`.
    pub multiply_adds: u64,
}

impl Counts {
    /// Number of all parameters.
    pub fn total(&self) -> u64 {
        self.convolutions + self.batch_norm + self.classifier
    }
}

/// A network as data.
///
/// `nodes[0]` is the input; the last node and every early exit compute logits. With several heads
/// (MIMO) the input holds that many images, concatenated along the channels, and the logits hold
/// the classes of the first image, then those of the second, and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Architecture {
    /// Name from which the network was built.
    pub name: ArchName,
    /// Shape of one input image.
    pub input: ImageShape,
    /// Number of classes.
    pub classes: usize,
    /// Number of images that one forward pass classifies together; 1 except for MIMO.
    pub heads: usize,
    /// Operations in the order in which they run.
    pub nodes: Vec<Node>,
    /// Nodes that compute logits, in the order in which they run; the last one is the last node.
    pub exits: Vec<NodeId>,
    /// Trainable tensors in the order in which they are used.
    pub tensors: Vec<Tensor>,
}

impl Architecture {
    /// Returns the tensor with this id.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.0]
    }

    /// Counts parameters by part, and multiply-adds up to the last exit.
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

    /// Multiply-adds for one image up to exit number `exit`, earlier exits included.
    ///
    /// Saturates at `u64::MAX`.
    ///
    /// # Panics
    ///
    /// If there is no such exit.
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
