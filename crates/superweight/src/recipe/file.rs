//! A recipe as it is written: every field may be left out; [`KEYS`](super::KEYS) says what it is then.

use crate::model::ensemble::ParameterKind;
use serde::{Deserialize, Serialize};

use super::source::Source;
use super::strategy::Strategy;

/// What a user asks for. Made by [`Recipe::load`] or [`Recipe::parse`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recipe {
    /// Of the run and its folder.
    pub name: Option<String>,
    /// The networks.
    pub members: Option<Vec<String>>,
    /// Every trainable number counts against it.
    pub budget: Option<CountOrText>,
    /// How sharing is decided.
    pub strategy: Option<Strategy>,
    /// Every random choice of the run comes from it.
    pub seed: Option<u64>,
    /// Seeds of all runs that the row is the mean of.
    pub seeds: Option<Vec<u64>>,
    /// Images.
    pub data: DataTable,
    /// Where sharing starts.
    pub plan: PlanTable,
    /// Training.
    pub train: TrainTable,
    /// Search of clusters; unused where the strategy has none.
    pub search: SearchTable,
    /// Refinement of coefficients; unused where the strategy has none.
    pub refine: RefineTable,
    /// Evaluation.
    pub eval: EvalTable,
    /// Where everything stands, for messages.
    #[serde(skip)]
    pub(super) source: Source,
}

/// `[data]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataTable {
    /// Which set.
    pub name: Option<String>,
    /// Of a packed set, as a run has begun with it.
    pub digest: Option<String>,
    /// Training images held out, never trained on.
    pub validation: Option<CountOrText>,
    /// Decides which; independent of the run's seed.
    pub split_seed: Option<u64>,
    /// How training images are cut.
    pub crop: Option<Crop>,
    /// Smallest share of an image that is stretched to its size.
    pub min_crop_scale: Option<f64>,
    /// Pixels by which a padded image may be shifted.
    pub padding: Option<u64>,
    /// Whether half of the images are flipped.
    pub flip: Option<bool>,
    /// Side of the square that is cut out; 0 for none.
    pub cutout: Option<u64>,
}

/// `[plan]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlanTable {
    /// The plan itself, instead of all that follows.
    pub file: Option<String>,
    /// Starting clusters.
    pub clusters: Option<String>,
    /// Nested, grid, or what fits.
    pub tiling: Option<String>,
    /// Side of a grid's blocks.
    pub block: Option<CountOrText>,
    /// What numbers start with.
    pub scale: Option<superweight_plan::Scale>,
    /// Whether the convolution that reads the image takes part.
    pub share_stem: Option<bool>,
    /// Whether the layer that gives the logits takes part.
    pub share_classifier: Option<bool>,
}

/// `[train]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainTable {
    /// Those of the search do not count.
    pub epochs: Option<u64>,
    /// Images of a step.
    pub batch_size: Option<u64>,
    /// How often an image comes in a step, for every head.
    pub batch_repetitions: Option<u64>,
    /// Members that a step trains.
    pub members_per_step: Option<u64>,
    /// Whether the largest member teaches the others.
    pub distillation: Option<bool>,
    /// Images that batch norm takes its statistics over.
    pub bn_batch_size: Option<u64>,
    /// Of SGD.
    pub momentum: Option<f64>,
    /// Nesterov's variant of it.
    pub nesterov: Option<bool>,
    /// Learning rate: the first, or the highest.
    pub lr: Option<f64>,
    /// How it moves.
    pub schedule: Option<ScheduleWord>,
    /// Epochs from which it is lower.
    pub milestones: Option<Vec<CountOrText>>,
    /// By this factor.
    pub gamma: Option<f64>,
    /// Epochs of linear warm-up; not with one-cycle, which rises by itself.
    pub warmup_epochs: Option<u64>,
    /// One-cycle: share of the steps in which it rises.
    pub pct_start: Option<f64>,
    /// One-cycle: highest rate over the first.
    pub div_factor: Option<f64>,
    /// One-cycle: first rate over the last.
    pub final_div_factor: Option<f64>,
    /// Weight decay.
    pub weight_decay: Option<f64>,
    /// What is decayed.
    pub weight_decay_on: Option<Vec<ParameterKind>>,
    /// Decay of templates, patterns and coefficients over the decay of everything else.
    pub shared_weight_decay_mult: Option<f64>,
    /// How many of the last epochs are averaged.
    pub swa_epochs: Option<CountOrText>,
    /// Share of the target spread over all classes.
    pub label_smoothing: Option<f64>,
    /// Rate of templates over the rate of everything else.
    pub template_lr_mult: Option<f64>,
    /// Rate of coefficients over the rate of everything else.
    pub coefficient_lr_mult: Option<f64>,
    /// Of activations and composed weights.
    pub precision: Option<Precision>,
}

/// `[search]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SearchTable {
    /// Trained before layers are compared.
    pub epochs: Option<u64>,
    /// Constant learning rate.
    pub lr: Option<f64>,
    /// τ: layers more alike than this stay together.
    pub tau: Option<f64>,
    /// Templates that a grid set keeps; else τ is relaxed.
    pub min_templates: Option<u64>,
    /// Which reading of Algorithm 1.
    pub algorithm: Option<superweight_plan::Assignment>,
    /// Last batches of the search whose gradients are summed; 0 for its whole last epoch.
    pub batches: Option<u64>,
    /// k of coefficient-clustering.
    pub clusters: Option<u64>,
}

/// `[refine]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RefineTable {
    /// E: hard-shared epochs before coefficients split.
    pub epoch: Option<u64>,
    /// β: layers more alike than this keep the same coefficients.
    pub beta: Option<f64>,
    /// Share of every layer's own coefficients that the budget keeps free for splitting.
    pub reserve: Option<f64>,
    /// Whether everything starts anew once groups have parted.
    pub reinit: Option<bool>,
}

/// `[eval]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvalTable {
    /// Epochs between looks at the images held out.
    pub validation_every: Option<u64>,
    /// Whether the test set is looked at.
    pub test: Option<bool>,
    /// Epochs between looks at the test set; 0 for the end only.
    pub test_every: Option<u64>,
}

/// `10%`, `auto`, or just a count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CountOrText {
    /// 365368
    Count(u64),
    /// "36.5M"
    Text(String),
}

impl CountOrText {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Count(n) => n.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// How training images are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Crop {
    /// Padded and shifted.
    Pad,
    /// A random part, stretched to the image's size (ImageNet).
    RandomResized,
}

/// How the learning rate moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleWord {
    /// Falls at given epochs.
    Multistep,
    /// Stays.
    Constant,
    /// Rises, then falls.
    OneCycle,
}

/// Numbers of activations and composed weights; trained numbers are always f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// bf16 where the device has it, else f32.
    Auto,
    /// 32 bits.
    F32,
    /// 16 bits with f32's range.
    Bf16,
}
