//! What trained members are worth: scores of every member and of every ensemble of members.
//!
//! ```text
//! run ─► logits of every member ─► softmax ─► mean over a subset ─► top-1, top-5, NLL, ECE
//!        (one pass, saved)                    (all 2^M − 1)         diversity
//! ```
//!
//! Everything after the pass is a pure function of the saved logits, so that any figure can be computed again without
//! the network; an ensemble is the mean of its members' probabilities, never of their logits.
//!
//! | file | question |
//! |---|---|
//! | `metrics` | how good are these probabilities? |
//! | `subsets` | which subsets are there, and how good is each? |
//! | `by_class` | which classes are hard, and what are they taken for? |
//! | `report` | which figures are printed, in percent? |
//! | `record` | what is kept of an evaluation, and what `swn eval --json` prints? |
//! | `by_batch` | how good is a network whose batch norms have no running statistics? |
//! | `interpolate` | how good are weights between two members? |
//! | `predictions` | what is kept on disk: logits in full, classes in about 10 KB |

mod by_class;
pub mod metrics;
mod predictions;
mod record;
mod report;
mod subsets;

pub use by_class::{ClassScore, by_class};
pub use metrics::{Bin, ECE_BINS, Scores, Tally, diversity};
pub use predictions::{Classes, PredictionError, Predictions};
pub use record::{
    ClassRecord, CorruptionsRecord, EvaluationRecord, InterpolationPoint, InterpolationRecord,
};
pub use report::{
    CorruptedAverage, CorruptedReport, Figures, SetReport, SubsetReport, average, subset_name,
};
pub use subsets::{SubsetScores, evaluate_subsets};
