//! Tuning of convolutions: effort levels and records of tuned plans.

use serde::{Deserialize, Serialize};

/// Time spent on choosing plans. A cached plan serves its own level and lower ones.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Tuning {
    /// The first plan that the heuristics propose. Milliseconds per convolution.
    #[default]
    Heuristic,
    /// Measures all proposals. At most a second per convolution.
    Quick,
    /// Measures all proposals, then varies the knobs of the best. At most four seconds per
    /// convolution.
    Full,
}

/// A tuned plan of one convolution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConvRecord {
    #[serde(flatten)]
    pub(super) machine: Machine,
    /// Shape, direction, write mode and precision as text.
    pub conv: String,
    /// Number of the cuDNN engine.
    pub engine: i64,
    /// Knobs of the engine as `(type, value)`.
    pub knobs: Vec<(u32, i64)>,
    /// Workspace in bytes.
    pub workspace: usize,
    /// Median time of a run when it was tuned.
    pub microseconds: f64,
    /// Level at which it was tuned.
    pub tuning: Tuning,
    /// Whether a later measurement confirmed the time.
    #[serde(default)]
    pub confirmed: bool,
}

/// GPU, driver and cuDNN version, which a plan's speed and existence depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) gpu: String,
    pub(super) driver: i32,
    pub(super) cudnn: usize,
}
