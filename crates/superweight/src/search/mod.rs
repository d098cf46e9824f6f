//! Learning what to share (paper §2.2): which layers use the same templates, and which of them keep
//! the same coefficients.
//!
//! ```text
//! pretrain ─► Σ dL/dW per layer ─► similarity of pairs (Eq. 2) ─► Algorithm 1 with τ
//!     └─► a new plan, all parameters initialized again
//! train E epochs hard-shared ─► Σ dL/dα per layer ─► similarity (Eq. 3) ─► Algorithm 1 with β
//!     └─► a refined plan, α copied or all parameters initialized again
//! ```
//!
//! The planner implements Algorithm 1 and counts what a partition costs. This module computes its
//! input, and stores it so that the decision can be made again ([`replay`]). The training loop
//! calls [`SearchProbe`] and [`CoefficientGradientSums`] after each backward pass.
//!
//! | file | contents |
//! |---|---|
//! | `sums`, `probe` | statistics gathered during the epoch before a decision |
//! | `pairs` | similarity of two layers (Eq. 2) |
//! | `coefficients` | similarity of two layers' gradients of one α (Eq. 3) |
//! | `means`, `softmax`, `kmeans` | coefficient clustering, as in Shapeshifter Networks |
//! | `statistics` | the statistics and their file |
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

pub use coefficients::{CoefficientGradient, coefficient_pairs, refinement_candidates};
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
