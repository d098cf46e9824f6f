//! A recipe as written. Every field is optional; [`KEYS`](super::KEYS) has the defaults.

use crate::model::ensemble::ParameterKind;
use serde::{Deserialize, Serialize};

use super::source::Source;
use super::strategy::Strategy;

/// A recipe as a user writes it. Read with [`Recipe::load`] or [`Recipe::parse`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recipe {
    /// Name of the run and of its folder.
    pub name: Option<String>,
    /// Names of the member networks.
    pub members: Option<Vec<String>>,
    /// Parameter budget: a count, or a share of the members' total.
    pub budget: Option<CountOrText>,
    /// How the run decides what is shared.
    pub strategy: Option<Strategy>,
    /// Seed of every random choice of the run.
    pub seed: Option<u64>,
    /// Seeds of all runs that a table row averages.
    pub seeds: Option<Vec<u64>>,
    /// Data set, validation split and augmentation.
    pub data: DataTable,
    /// Sharing at the start: clusters, tiling, scale, or a plan file.
    pub plan: PlanTable,
    /// Training settings.
    pub train: TrainTable,
    /// Search of clusters; unused by strategies without a search.
    pub search: SearchTable,
    /// Refinement of coefficients; unused by strategies without refinement.
    pub refine: RefineTable,
    /// When the run evaluates, and on which images.
    pub eval: EvalTable,
    /// Text and flags, for the places in messages.
    #[serde(skip)]
    pub(super) source: Source,
}

/// Table `[data]`: images and augmentation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataTable {
    /// Name of the data set.
    pub name: Option<String>,
    /// Digest of a packed data set: a run trains on these images only.
    pub digest: Option<String>,
    /// Training images reserved for validation; no step trains on them.
    pub validation: Option<CountOrText>,
    /// Seed of the validation split; independent of the run's seed.
    pub split_seed: Option<u64>,
    /// How training images are cropped.
    pub crop: Option<Crop>,
    /// Smallest share of an image's area that a random-resized crop has.
    pub min_crop_scale: Option<f64>,
    /// Pixels of padding on each side before a random crop.
    pub padding: Option<u64>,
    /// Whether images are flipped horizontally with probability one half.
    pub flip: Option<bool>,
    /// Side of the cutout square in pixels; 0 for none.
    pub cutout: Option<u64>,
}

/// Table `[plan]`: what may share, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlanTable {
    /// Plan file (JSON), used instead of the other keys of this table.
    pub file: Option<String>,
    /// Starting clusters.
    pub clusters: Option<String>,
    /// Tiling: what a template is.
    pub tiling: Option<String>,
    /// Side of a grid's blocks.
    pub block: Option<CountOrText>,
    /// Rule for the standard deviation of initial templates and coefficients.
    pub scale: Option<superweight_plan::Scale>,
    /// Whether the stem (the convolution that reads the image) shares.
    pub share_stem: Option<bool>,
    /// Whether the classifier (the layer that gives the logits) shares.
    pub share_classifier: Option<bool>,
}

/// Table `[train]`: optimizer, schedule, batches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainTable {
    /// Epochs of training; epochs of the search are not counted.
    pub epochs: Option<u64>,
    /// Images per step.
    pub batch_size: Option<u64>,
    /// MIMO: copies of each image in a step for every subnetwork.
    pub batch_repetitions: Option<u64>,
    /// Members that each step trains.
    pub members_per_step: Option<u64>,
    /// Whether the others learn from the largest member's probabilities.
    pub distillation: Option<bool>,
    /// Images per group of batch-norm statistics (ghost batch norm).
    pub bn_batch_size: Option<u64>,
    /// Momentum of SGD.
    pub momentum: Option<f64>,
    /// Whether momentum is Nesterov's.
    pub nesterov: Option<bool>,
    /// Learning rate; with one-cycle the highest.
    pub lr: Option<f64>,
    /// Shape of the learning-rate schedule.
    pub schedule: Option<ScheduleWord>,
    /// Multistep: first epochs of the lower learning rates.
    pub milestones: Option<Vec<CountOrText>>,
    /// Multistep: factor of each milestone.
    pub gamma: Option<f64>,
    /// Epochs of linear warm-up; not with one-cycle, which has its own.
    pub warmup_epochs: Option<u64>,
    /// One-cycle: share of the steps in which the learning rate rises.
    pub pct_start: Option<f64>,
    /// One-cycle: highest learning rate over the first.
    pub div_factor: Option<f64>,
    /// One-cycle: first learning rate over the last.
    pub final_div_factor: Option<f64>,
    /// Weight decay λ.
    pub weight_decay: Option<f64>,
    /// Kinds of parameters that weight decay applies to.
    pub weight_decay_on: Option<Vec<ParameterKind>>,
    /// Factor on the weight decay of templates, patterns and coefficients.
    pub shared_weight_decay_mult: Option<f64>,
    /// Epochs of stochastic weight averaging at the end.
    pub swa_epochs: Option<CountOrText>,
    /// Label smoothing: share of the target spread over all classes.
    pub label_smoothing: Option<f64>,
    /// Factor on the learning rate of templates.
    pub template_lr_mult: Option<f64>,
    /// Factor on the learning rate of coefficients.
    pub coefficient_lr_mult: Option<f64>,
    /// Precision of activations and composed weights.
    pub precision: Option<Precision>,
}

/// Table `[search]`: how clusters are searched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SearchTable {
    /// Epochs of training before layers are compared.
    pub epochs: Option<u64>,
    /// Learning rate of the search, constant.
    pub lr: Option<f64>,
    /// τ: layers with a similarity above it form a cluster.
    pub tau: Option<f64>,
    /// Smallest number of templates per set with grid; the search relaxes τ to keep it.
    pub min_templates: Option<u64>,
    /// Version of Algorithm 1: the paper's, or that of the released code.
    pub algorithm: Option<superweight_plan::Assignment>,
    /// Number of last batches whose gradients are summed; 0 for the whole last epoch.
    pub batches: Option<u64>,
    /// Number of clusters k for coefficient clustering.
    pub clusters: Option<u64>,
}

/// Table `[refine]`: when coefficients split, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RefineTable {
    /// E: epochs of hard sharing before coefficients split.
    pub epoch: Option<u64>,
    /// β: layers with a similarity above it keep one set of coefficients.
    pub beta: Option<f64>,
    /// Share of all per-layer coefficients that the budget reserves for the split.
    pub reserve: Option<f64>,
    /// Whether all parameters are reinitialised after the split.
    pub reinit: Option<bool>,
}

/// Table `[eval]`: evaluation during training.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvalTable {
    /// Epochs between evaluations on the validation images.
    pub validation_every: Option<u64>,
    /// Whether the run evaluates on the test images at all.
    pub test: Option<bool>,
    /// Epochs between evaluations on the test images; 0 for the end only.
    pub test_every: Option<u64>,
}

/// A count, or a text such as `10%`, `36.5M` or `auto`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CountOrText {
    /// A count such as 365368.
    Count(u64),
    /// A text such as "36.5M".
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

/// How training images are cropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Crop {
    /// Padded with zeros, then a random crop of the original size.
    Pad,
    /// A random part of the image, resized to the full size (as for ImageNet).
    RandomResized,
}

/// Shape of the learning-rate schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleWord {
    /// The learning rate falls at the milestones.
    Multistep,
    /// The learning rate is constant.
    Constant,
    /// The learning rate rises once, then falls.
    OneCycle,
}

/// Precision of activations and composed weights. Parameters are always f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// bf16 where the device has it, else f32.
    Auto,
    /// 32-bit floating point.
    F32,
    /// 16-bit floating point with the range of f32.
    Bf16,
}
