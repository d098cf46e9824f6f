//! The layers of all members in one list: what clusters, pairs and groups speak of.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::arch::{ArchError, ArchName, Architecture, ImageShape, NodeId, Op, TensorKind};
use crate::error::PlanError;
use crate::ids::MemberId;

/// One network of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its architecture.
    pub architecture: ArchName,
    /// Channels, height and width of an image.
    pub input: ImageShape,
    /// Classes told apart.
    pub classes: usize,
}

impl Member {
    /// The network as data.
    pub fn build(&self) -> Result<Architecture, ArchError> {
        self.architecture.build(self.input, self.classes)
    }
}

/// What a layer computes; layers of different kinds never share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerKind {
    /// A convolution.
    Conv,
    /// A convolution of each channel by itself, weight `[channels, 1, kh, kw]`.
    Depthwise,
    /// A fully connected layer.
    Linear,
}

/// Where a layer stands: stem and classifier are dense unless asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads the image.
    Stem,
    /// In between.
    Body,
    /// Gives the logits.
    Classifier,
}

/// The weight of a convolution or linear layer of one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Whose it is.
    pub member: MemberId,
    /// PyTorch's name of the weight.
    pub name: String,
    /// What it computes.
    pub kind: LayerKind,
    /// Where it stands.
    pub role: Role,
    /// Output channels.
    pub out: usize,
    /// Input channels per group.
    #[serde(rename = "in")]
    pub inp: usize,
    /// Kernel height and width; `[1, 1]` for a linear layer.
    pub kernel: [usize; 2],
    /// Position among the member's layers, the stem at 0.
    pub depth: usize,
}

impl Layer {
    /// Numbers in its weight.
    pub fn len(&self) -> u64 {
        (self.out * self.inp * self.kernel_area()) as u64
    }

    /// Whether the weight is empty; never true of a built architecture.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// kh·kw.
    pub fn kernel_area(&self) -> usize {
        self.kernel[0] * self.kernel[1]
    }

    /// He's deviation √(2 / fan-in).
    pub fn he_std(&self) -> f64 {
        (2.0 / (self.inp * self.kernel_area()) as f64).sqrt()
    }

    /// Layers share only within one family.
    pub fn family(&self) -> Family {
        Family { kind: self.kind, kernel: self.kernel }
    }

    /// `3×3 [160, 16]`.
    pub fn shape(&self) -> String {
        format!("{} [{}, {}]", self.family(), self.out, self.inp)
    }
}

/// Kind and kernel size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Family {
    /// What its layers compute.
    pub kind: LayerKind,
    /// Their kernel.
    pub kernel: [usize; 2],
}

impl Family {
    /// Whether depth bins and random partitions split it: 1×1 layers stay together.
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

/// A trainable vector with one owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// Whose it is.
    pub member: MemberId,
    /// PyTorch's name.
    pub name: String,
    /// What it is for.
    pub kind: VectorKind,
    /// Numbers in it.
    pub len: u64,
}

/// What a vector is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VectorKind {
    /// γ of a batch norm.
    NormScale,
    /// β of a batch norm.
    NormShift,
    /// Bias of a linear layer.
    Bias,
}

/// The trainable tensors of all members.
pub(crate) struct Tensors {
    pub layers: Vec<Layer>,
    pub vectors: Vec<Vector>,
}

/// Most trainable numbers that all members together may have; keeps every count far from overflow.
pub(crate) const MOST_NUMBERS: u64 = 1_000_000_000_000;

/// Refuses members that cannot answer together: that do not see as many images at once, or of which one has exits.
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
    /// Members in order, tensors in the order they are used.
    pub fn of(members: &[Member]) -> Result<Self, PlanError> {
        let mut tensors = Self { layers: vec![], vectors: vec![] };
        check_compatible(members)?;
        let mut total = 0u64;
        for (member, spec) in members.iter().enumerate() {
            let architecture = spec.build()?;
            total = total.saturating_add(architecture.counts().total());
            if total > MOST_NUMBERS {
                return Err(PlanError::TooLarge { limit: MOST_NUMBERS });
            }
            tensors.add(MemberId(member), &architecture);
        }
        Ok(tensors)
    }

    /// Trainable numbers if nothing is shared.
    pub fn total(&self) -> u64 {
        self.layers.iter().map(Layer::len).sum::<u64>()
            + self.vectors.iter().map(|v| v.len).sum::<u64>()
    }

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
