//! Evaluation of trained members: scores of every member and of every ensemble of members.
//!
//! ```text
//! run ─► logits of every member ─► softmax ─► mean over a subset ─► top-1, top-5, NLL, ECE
//!        (one pass, saved)                    (all 2^M − 1)         diversity
//! ```
//!
//! Everything after the pass is a pure function of the saved logits, so that every figure can be
//! computed again without the network. An ensemble is the mean of its members' probabilities, not
//! of their logits. The pass itself is [`infer::evaluate`](crate::infer::evaluate()).
//!
//! | file | contents |
//! |---|---|
//! | `metrics` | scores of probabilities against labels |
//! | `subsets` | scores of every subset from one pass |
//! | `by_class` | accuracy and confusions of each class |
//! | `report` | figures as they are printed, in percent |
//! | `record` | the JSON that `swn eval` prints and keeps |
//! | `predictions` | files of logits, and of predicted classes in about 10 KB |

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
