//! Members, and the list of their layers that clusters, pairs and groups refer to.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::arch::{ArchError, ArchName, Architecture, ImageShape, NodeId, Op, TensorKind};
use crate::error::PlanError;
use crate::ids::MemberId;

/// One network of a plan: an architecture with its input shape and number of classes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Name of the architecture.
    pub architecture: ArchName,
    /// Shape of one input image.
    pub input: ImageShape,
    /// Number of classes.
    pub classes: usize,
}

impl Member {
    /// Builds the network: its operations and tensors.
    pub fn build(&self) -> Result<Architecture, ArchError> {
        self.architecture.build(self.input, self.classes)
    }
}

/// The operation of a layer. Layers of different kinds never share templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerKind {
    /// A convolution with weight `[out, in, kh, kw]`.
    Conv,
    /// A depthwise convolution: one filter per channel, weight `[channels, 1, kh, kw]`.
    Depthwise,
    /// A fully connected layer with weight `[out, in]`.
    Linear,
}

/// The place of a layer in its network.
///
/// Body layers share by default; [`SharedRoles`](crate::SharedRoles) decides for stem and
/// classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The convolution that reads the image.
    Stem,
    /// A layer between stem and classifier.
    Body,
    /// The linear layer that computes the logits.
    Classifier,
}

/// The weight of a convolution or linear layer of one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Member that the layer belongs to.
    pub member: MemberId,
    /// PyTorch's name of the weight, e.g. `block1.layer.0.conv1.weight`.
    pub name: String,
    /// Operation of the layer.
    pub kind: LayerKind,
    /// Place of the layer in its network.
    pub role: Role,
    /// Output channels.
    pub out: usize,
    /// Input channels per group.
    #[serde(rename = "in")]
    pub inp: usize,
    /// Kernel height and width; `[1, 1]` for a linear layer.
    pub kernel: [usize; 2],
    /// Position among the member's layers; the stem is 0.
    pub depth: usize,
}

impl Layer {
    /// Number of parameters in the weight.
    pub fn len(&self) -> u64 {
        (self.out * self.inp * self.kernel_area()) as u64
    }

    /// Whether the weight has no parameters. False for every layer of a built architecture.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of positions in the kernel, kh·kw.
    pub fn kernel_area(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// He's standard deviation for the weight's initial values, √(2 / fan-in).
    pub fn he_std(&self) -> f64 {
        (2.0 / (self.inp * self.kernel_area()) as f64).sqrt()
    }

    /// Kind and kernel size. Layers share templates only within one family, unless they read a
    /// bank.
    pub fn family(&self) -> Family {
        Family { kind: self.kind, kernel: self.kernel }
    }

    /// Describes the weight for messages, e.g. `3×3 [160, 16]` (family, outputs, inputs).
    pub fn shape(&self) -> String {
        format!("{} [{}, {}]", self.family(), self.out, self.inp)
    }
}

/// The kind and kernel size that layers must have in common to share templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Family {
    /// Operation of the layers.
    pub kind: LayerKind,
    /// Kernel height and width.
    pub kernel: [usize; 2],
}

impl Family {
    /// Whether depth bins and random partitions divide this family. False for 1×1 kernels.
    pub fn is_split(&self) -> bool {
        self.kernel != [1, 1]
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let [h, w] = self.kernel;
        match self.kind {
            LayerKind::Conv => write!(f, "{h}×{w}"),
            LayerKind::Depthwise => write!(f, "{h}×{w} depthwise"),
            LayerKind::Linear => write!(f, "linear"),
        }
    }
}

/// A trainable vector that is never shared: a batch-norm scale or shift, or a bias.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// Member that the vector belongs to.
    pub member: MemberId,
    /// PyTorch's name, e.g. `bn1.bias`.
    pub name: String,
    /// Use of the vector in the network.
    pub kind: VectorKind,
    /// Number of parameters in the vector.
    pub len: u64,
}

/// The use of a trainable vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VectorKind {
    /// Scale γ of a batch norm.
    NormScale,
    /// Shift β of a batch norm.
    NormShift,
    /// Bias of a linear layer.
    Bias,
}

/// The trainable tensors of all members.
pub(crate) struct Tensors {
    /// Weights of convolutions and linear layers; positions are [`LayerId`](crate::LayerId)s.
    pub layers: Vec<Layer>,
    /// All other tensors.
    pub vectors: Vec<Vector>,
}

/// Largest number of parameters that the members may have together. Keeps counts far from overflow.
pub(crate) const MAX_PARAMETERS: u64 = 1_000_000_000_000;

/// Fails if members cannot be evaluated together as one ensemble.
///
/// All members must read the same number of images at once ([`ArchName::heads`]), and a member with
/// early exits must be the only member.
pub fn check_compatible(members: &[Member]) -> Result<(), PlanError> {
    if let [_, _, ..] = members
        && let Some(exits) = members.iter().find(|member| member.architecture.exits() > 1)
    {
        return Err(PlanError::Exits(exits.architecture.to_string()));
    }
    let other = members
        .windows(2)
        .find(|pair| pair[0].architecture.heads() != pair[1].architecture.heads());
    other.map_or(Ok(()), |pair| {
        let [a, b] = [0, 1].map(|side: usize| pair[side].architecture.to_string());
        Err(PlanError::Heads { a, b })
    })
}

impl Tensors {
    /// Lists the tensors member by member, in the order in which they are used.
    pub fn of(members: &[Member]) -> Result<Self, PlanError> {
        let mut tensors = Self { layers: vec![], vectors: vec![] };
        check_compatible(members)?;
        let mut total = 0u64;
        for (member, spec) in members.iter().enumerate() {
            let architecture = spec.build()?;
            total = total.saturating_add(architecture.counts().total());
            if total > MAX_PARAMETERS {
                return Err(PlanError::TooLarge { limit: MAX_PARAMETERS });
            }
            tensors.add(MemberId(member), &architecture);
        }
        Ok(tensors)
    }

    /// Number of parameters if nothing is shared.
    pub fn total(&self) -> u64 {
        self.layers.iter().map(Layer::len).sum::<u64>()
            + self.vectors.iter().map(|v| v.len).sum::<u64>()
    }

    /// Appends the tensors of one member.
    pub fn add(&mut self, member: MemberId, arch: &Architecture) {
        let mut depth = 0;
        for node in &arch.nodes {
            let (weight, kind, role) = match node.op {
                Op::Conv { weight, groups, .. } => {
                    let depthwise = groups > 1 && arch.tensor(weight).shape[1] == 1;
                    let kind = if depthwise { LayerKind::Depthwise } else { LayerKind::Conv };
                    (weight, kind, if node.inputs == [NodeId(0)] { Role::Stem } else { Role::Body })
                }
                Op::Linear { weight, .. } => (weight, LayerKind::Linear, Role::Classifier),
                _ => continue,
            };
            let tensor = arch.tensor(weight);
            let kernel =
                if kind == LayerKind::Linear { [1, 1] } else { [tensor.shape[2], tensor.shape[3]] };
            let (out, inp) = (tensor.shape[0], tensor.shape[1]);
            self.layers.push(Layer {
                member,
                name: tensor.name.clone(),
                kind,
                role,
                out,
                inp,
                kernel,
                depth,
            });
            depth += 1;
        }
        self.vectors.extend(arch.tensors.iter().filter_map(|tensor| {
            let kind = match tensor.kind {
                TensorKind::NormScale => VectorKind::NormScale,
                TensorKind::NormShift => VectorKind::NormShift,
                TensorKind::LinearBias => VectorKind::Bias,
                TensorKind::ConvWeight | TensorKind::LinearWeight => return None,
            };
            Some(Vector { member, name: tensor.name.clone(), kind, len: tensor.len() })
        }));
    }
}
