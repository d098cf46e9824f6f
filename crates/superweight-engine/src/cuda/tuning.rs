//! Tuning.

use serde::{Deserialize, Serialize};

/// How much time is spent on choosing plans. A cache entry serves its level and those below.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Tuning {
    /// What the heuristics propose first. Milliseconds per convolution.
    #[default]
    Heuristic,
    /// All proposals, timed. At most a second per convolution.
    Quick,
    /// Proposals, then the knobs of the best. At most four seconds per convolution.
    Full,
}

/// A tuned plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConvRecord {
    #[serde(flatten)]
    pub(super) machine: Machine,
    /// Shape, direction, write and precision in words.
    pub conv: String,
    /// cuDNN's number of the engine.
    pub engine: i64,
    /// Its knobs, `(type, value)`.
    pub knobs: Vec<(u32, i64)>,
    /// Scratch bytes.
    pub workspace: usize,
    /// Median time of a run when it was tuned.
    pub microseconds: f64,
    /// How much was tried.
    pub tuning: Tuning,
    /// Whether it was as fast as that when it was timed again.
    #[serde(default)]
    pub confirmed: bool,
}

/// What a plan's speed and existence depend on, besides the convolution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) gpu: String,
    pub(super) driver: i32,
    pub(super) cudnn: usize,
}
