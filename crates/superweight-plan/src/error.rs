//! Everything that can be wrong with a request or a plan, with the facts and what to do.

use thiserror::Error;

use crate::arch::ArchError;
use crate::ids::LayerId;
use crate::number::with_commas;

/// Why a plan could not be made, changed or read.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum PlanError {
    /// A member is not an architecture.
    #[error(transparent)]
    Arch(#[from] ArchError),
    /// There is nothing to plan.
    #[error("no members: name at least one architecture")]
    NoMembers,
    /// The budget does not hold the smallest plan of these members, clusters and tiling.
    #[error(
        "a budget of {} is too small: the smallest feasible one is {} ({tiling})",
        with_commas(*budget), with_commas(*needed)
    )]
    BudgetTooSmall {
        /// What was given.
        budget: u64,
        /// The smallest budget that would do.
        needed: u64,
        /// The tiling that was tried, in words.
        tiling: String,
    },
    /// More numbers than any machine holds: a typing error.
    #[error("the members have more than {} numbers: check depths and widths", with_commas(*limit))]
    TooLarge {
        /// Most numbers that are planned for.
        limit: u64,
    },
    /// All members see the same images, as many at once.
    #[error(
        "{a} and {b} see different numbers of images at once: choose members that all see one, or all of mimo-M with one M"
    )]
    Heads {
        /// A member.
        a: String,
        /// Another.
        b: String,
    },
    /// Exits are told from each other by their order, members by their place.
    #[error("{0} has exits of its own: choose it alone, without other members")]
    Exits(String),
    /// A threshold that orders nothing.
    #[error("{name} must be a finite number, not {value}")]
    Threshold {
        /// τ or β.
        name: &'static str,
        /// What was given.
        value: f64,
    },
    /// The reserve is a share of a count.
    #[error("refine.reserve must be between 0 and 1, not {reserve}")]
    Reserve {
        /// What was given.
        reserve: f64,
    },
    /// A block of no numbers.
    #[error("the grid's block must be between 1 and 4096, not {block}")]
    Block {
        /// What was given.
        block: usize,
    },
    /// A clustering that cannot be read.
    #[error(
        "unknown clusters '{text}': use single, depth:K, random:K[:SEED], per-layer, per-position, dense, \
         or a JSON file of layer lists"
    )]
    Clustering {
        /// As typed.
        text: String,
    },
    /// A cluster holds layers that cannot draw on one template.
    #[error("cluster {cluster} mixes {a} and {b}: kernel sizes and kinds are never shared")]
    MixedCluster {
        /// Its position in the request.
        cluster: usize,
        /// One layer, described.
        a: String,
        /// The other.
        b: String,
    },
    /// An empty cluster or group.
    #[error("{place} is empty: leave it out")]
    Empty {
        /// Which one.
        place: String,
    },
    /// A layer that does not exist.
    #[error("{place} names layer {layer}, but there are only {layers} layers")]
    NoSuchLayer {
        /// Where it stands.
        place: String,
        /// The id.
        layer: LayerId,
        /// How many there are.
        layers: usize,
    },
    /// A layer that stands in two sets of a partition.
    #[error("{place} names layer {layer} ({name}), which stands in another set already")]
    LayerTwice {
        /// Where it stands the second time.
        place: String,
        /// The id.
        layer: LayerId,
        /// Its name.
        name: String,
    },
    /// A similarity that is no number, or a pair that is no pair.
    #[error("similarity of layers {a} and {b} is {value}: {problem}")]
    Similarity {
        /// One layer.
        a: LayerId,
        /// The other.
        b: LayerId,
        /// The value given.
        value: f64,
        /// What is wrong.
        problem: &'static str,
    },
    /// No threshold gives clusters that fit.
    #[error("no threshold fits, even merging every pair above -1: {reason}")]
    NoFeasibleThreshold {
        /// What the coarsest groups lack.
        reason: String,
    },
    /// A plan contradicts itself or its architectures.
    #[error("{place}: {problem}")]
    Invalid {
        /// Path into the file, e.g. `superweights[3].groups[1]`.
        place: String,
        /// What was found and what was expected.
        problem: String,
    },
    /// A plan written by a newer or foreign program.
    #[error(
        "version: this plan has version {found}, this program reads version {supported}: use the program that wrote it"
    )]
    Version {
        /// As written in the file.
        found: String,
        /// What we read.
        supported: u32,
    },
    /// Not a plan at all.
    #[error("not a plan: {0}")]
    Json(String),
}
