//! [`PlanError`]: every way in which a request or a plan can be wrong.

use thiserror::Error;

use crate::arch::ArchError;
use crate::ids::LayerId;
use crate::number::with_commas;

/// Why a plan cannot be made, refined, or read from a file.
///
/// The fields carry the facts; the message also says what to do.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum PlanError {
    /// The architecture of a member cannot be built.
    #[error(transparent)]
    Arch(#[from] ArchError),
    /// The request has no members.
    #[error("no members: name at least one architecture")]
    NoMembers,
    /// The budget is below the smallest one that the members, clusters and tiling allow.
    #[error(
        "a budget of {} is too small: the smallest feasible one is {} ({tiling})",
        with_commas(*budget), with_commas(*needed)
    )]
    BudgetTooSmall {
        /// Requested budget, in parameters.
        budget: u64,
        /// Smallest feasible budget, in parameters.
        needed: u64,
        /// Tiling that meets the smallest feasible budget, in words.
        tiling: String,
    },
    /// The members have more parameters than the planner handles; probably a mistyped architecture.
    #[error(
        "the members have more than {} parameters: check their depths and widths",
        with_commas(*limit)
    )]
    TooLarge {
        /// Largest number of parameters that the planner handles.
        limit: u64,
    },
    /// Two members read different numbers of images at once, so they cannot form an ensemble.
    #[error(
        "{a} and {b} read different numbers of images at once: use members that all read one \
         image, or mimo-M members with the same M"
    )]
    Heads {
        /// Architecture of one member.
        a: String,
        /// Architecture of another member.
        b: String,
    },
    /// A network with early exits has other members beside it. The field is its architecture.
    #[error("{0} has early exits: plan it without other members")]
    Exits(String),
    /// The threshold τ or β is infinite or not a number.
    #[error("{name} must be a finite number, not {value}")]
    Threshold {
        /// Name of the threshold, τ or β.
        name: &'static str,
        /// Requested value.
        value: f64,
    },
    /// The reserve for refinement is not a fraction.
    #[error("refine.reserve must be between 0 and 1, not {reserve}")]
    Reserve {
        /// Requested reserve.
        reserve: f64,
    },
    /// The side of the blocks of a grid or Kronecker tiling is out of range.
    #[error("the grid's block must be between 1 and 4096 channels, not {block}")]
    Block {
        /// Requested side, in channels.
        block: usize,
    },
    /// A text is not a known clustering.
    #[error(
        "unknown clusters '{text}': use single, depth:K, random:K[:SEED], per-layer, per-position, \
         dense, or a JSON file of layer lists"
    )]
    Clustering {
        /// The text.
        text: String,
    },
    /// A requested cluster holds layers of different kind or kernel size.
    #[error(
        "cluster {cluster} holds {a} and {b}: put layers of different kind or kernel size into \
         different clusters"
    )]
    MixedCluster {
        /// Position of the cluster in the request.
        cluster: usize,
        /// First layer of the cluster, with its kind and kernel size.
        a: String,
        /// A layer of another kind or kernel size.
        b: String,
    },
    /// A requested cluster or coefficient group has no layers.
    #[error("{place} is empty: remove it")]
    Empty {
        /// The empty set, e.g. `clusters[2]`.
        place: String,
    },
    /// A requested cluster or coefficient group names a layer that does not exist.
    #[error("{place} names layer {layer}, but ids go from 0 to {}", layers.saturating_sub(1))]
    NoSuchLayer {
        /// The set that names the layer, e.g. `clusters[2]`.
        place: String,
        /// Id of the layer.
        layer: LayerId,
        /// Number of layers of all members.
        layers: usize,
    },
    /// A layer is in two sets of a partition, or twice in one.
    #[error("{place} names layer {layer} ({name}), which is named before: name it once")]
    LayerTwice {
        /// The set that names the layer the second time, e.g. `clusters[2]`.
        place: String,
        /// Id of the layer.
        layer: LayerId,
        /// Name of the layer's weight.
        name: String,
    },
    /// A pair of layers or its similarity is not usable.
    #[error("similarity of layers {a} and {b} is {value}: {problem}")]
    Similarity {
        /// One layer of the pair.
        a: LayerId,
        /// The other layer of the pair.
        b: LayerId,
        /// Similarity of the pair.
        value: f64,
        /// What is wrong with the pair.
        problem: &'static str,
    },
    /// No threshold gives clusters or coefficient groups that the budget pays for.
    #[error("no threshold fits, even with every pair above -1 merged: {reason}")]
    NoFeasibleThreshold {
        /// What the clusters or groups at the lowest threshold exceed or lack.
        reason: String,
    },
    /// A plan contradicts itself or the architectures of its members.
    #[error("{place}: {problem}")]
    Invalid {
        /// Path into the plan, e.g. `superweights[3].groups[1]`.
        place: String,
        /// What was found and what was expected.
        problem: String,
    },
    /// A plan file has a version that this program cannot read.
    #[error(
        "version: this plan has version {found}, this program reads version {supported}: use the \
         program that wrote it"
    )]
    Version {
        /// Version in the file.
        found: String,
        /// Version that this program reads.
        supported: u32,
    },
    /// A text is not JSON, or its fields are not those of a plan. The field is the reader's
    /// message.
    #[error("not a plan: {0}")]
    Json(String),
}
