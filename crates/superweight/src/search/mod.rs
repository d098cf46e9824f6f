//! Learning to share (paper §2.2): which layers draw on the same templates, and which go on using the same coefficients.
//!
//! ```text
//! pretrain ─► Σ dL/dW per layer ─► pairs (Eq. 2) ─► Algorithm 1 with τ ─► plan, everything anew
//! train E epochs hard-shared ─► Σ dL/dα per layer (Eq. 3) ─► Algorithm 1 with β ─► refined plan, α copied or all anew
//! ```
//!
//! Algorithm 1 itself, and what a partition costs, is the planner's; here is what it is fed with, and what is kept so
//! that it can be fed again ([`replay`]). Gradients come from whoever trains: [`SearchProbe`] and [`CoefficientGradientSums`] look at
//! an ensemble after each backward pass.
//!
//! | file | question |
//! |---|---|
//! | `sums`, `watch` | how are gradients summed over an epoch, and what else is looked at? |
//! | `pairs` | how alike are two layers? (Eq. 2) |
//! | `coefficients` | how alike is what two layers ask of one α? (Eq. 3) |
//! | `means`, `softmax`, `kmeans` | coefficient clustering, as Shapeshifter Networks have it |
//! | `statistics` | what is kept, and its file |
//! | `decide`, `replay` | statistics → plan, in training and afterwards |

mod coefficients;
mod decide;
mod error;
mod kmeans;
mod means;
mod pairs;
mod probe;
mod replay;
mod softmax;
mod statistics;
mod sums;

pub use coefficients::{CoefficientGradient, refinement_candidates, coefficient_pairs};
pub use decide::{Decision, Threshold, decide_clusters, decide_groups, groups};
pub use error::SearchError;
pub use kmeans::kmeans;
pub use means::means;
pub use pairs::{LayerTensors, PairStatistic, compare_layers};
pub use probe::SearchProbe;
pub use replay::{Replay, Replayed, replay};
pub use softmax::SoftmaxCoefficients;
pub use statistics::{Compared, RefineStatistics, SearchStatistics, Statistics};
pub use sums::{CoefficientGradientSums, WeightGradientSums};
