//! What can be typed behind `swn plan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The flags that say what is planned.
const SHAPING: [&str; 12] = [
    "members",
    "budget",
    "classes",
    "input",
    "clusters",
    "tiling",
    "block",
    "coefficients",
    "reserve",
    "scale",
    "share_stem",
    "share_classifier",
];

/// Decide what is shared, for any architectures and any budget, before anything is trained.
///
/// Says whether the budget can be met, how, what each part costs, what is left over and the smallest budget that would
/// do.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PlanArgs {
    /// A recipe (TOML): print what its training, or its search, begins with.
    #[arg(conflicts_with_all = SHAPING)]
    pub recipe: Option<PathBuf>,

    /// Set a key of the recipe, such as budget=5%; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", requires = "recipe")]
    pub set: Vec<String>,

    /// Architectures, separated by commas: wrn-28-10, wrn-50-2, resnet-50, mobilenet-v2-0.5, cnn-16-32,
    /// mimo-3-wrn-28-10, msdnet-16-12.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub members: Vec<String>,

    /// All trainable numbers together: a count (365368, 500K, 36.5M) or a share of what the members have without
    /// sharing (10%).
    #[arg(long, allow_hyphen_values = true)]
    pub budget: Option<String>,

    /// Classes told apart.
    #[arg(long, default_value_t = 100, allow_negative_numbers = true)]
    pub classes: usize,

    /// Channels, height and width of an image [default: 3x224x224 for bottleneck networks, else 3x32x32].
    #[arg(long, value_name = "CxHxW")]
    pub input: Option<String>,

    /// Which layers may share templates: single, depth:K, random:K[:SEED], per-layer, per-position, dense, or a JSON
    /// file with lists of layers ("0/block1.layer.0.conv1.weight" is that layer of member 0).
    #[arg(long, default_value = "single")]
    pub clusters: String,

    /// What a template is: as large as its SuperWeight, a block of a grid, or a pattern of blocks.
    #[arg(long, value_enum, default_value_t)]
    pub tiling: TilingArg,

    /// Side of a block [default: the first of 8, 16 and 32 of which the budget pays for three templates a set; with
    /// kronecker the one that makes templates smallest].
    #[arg(long, allow_negative_numbers = true)]
    pub block: Option<usize>,

    /// Who uses one set of coefficients when training starts.
    #[arg(long, value_enum, default_value_t)]
    pub coefficients: CoefficientsArg,

    /// Share of every layer's own coefficients that is kept for refinement; 0 without refinement.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    pub reserve: f64,

    /// The sizes that numbers start with [default: even for grid, kronecker and stretched, corner for rank-one, else balanced].
    #[arg(long, value_enum)]
    pub scale: Option<ScaleArg>,

    /// Share the stem too.
    #[arg(long)]
    pub share_stem: bool,

    /// Share the classifiers too, or not (--share-classifier=false) [default: where blocks make them smaller].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub share_classifier: Option<bool>,

    /// Write the plan to this file.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,

    /// Print an existing plan instead of making one.
    #[arg(long, value_name = "FILE", conflicts_with_all = SHAPING, conflicts_with_all = ["recipe", "out"])]
    pub show: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub enum TilingArg {
    /// Nested if its minimum is at most half the budget, or the budget all that there is without sharing; else grid, or
    /// kronecker where a grid has no room for three templates.
    #[default]
    Auto,
    /// A template is as large as its SuperWeight.
    Nested,
    /// A SuperWeight is a grid of blocks.
    Grid,
    /// A template is as large as its SuperWeight: a number per cell of a grid times a block.
    Kronecker,
    /// Shapeshifter Networks: templates as large as their layers, looked at in a bank of numbers and stretched where that is smaller.
    Stretched,
    /// BatchEnsemble: layers of one shape are one matrix, times factors of rank one that each has for itself.
    RankOne,
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub enum CoefficientsArg {
    /// All layers on a SuperWeight, until refinement parts them.
    #[default]
    Shared,
    /// Every layer its own.
    Own,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum ScaleArg {
    /// Templates, coefficients and plain weights learn equally fast.
    Even,
    /// A template's step moves a weight as a plain step would, were all gradients alike.
    Balanced,
    /// Templates of deviation 1 and He's factor for every layer.
    He,
    /// As the authors' code has it: the same for every layer.
    Released,
    /// A narrow layer is the corner of a wide one, number for number.
    Corner,
}

const EXAMPLES: &str = "\
Examples:
  swn plan --members wrn-28-10 --budget 10%
  swn plan --members wrn-34-8,wrn-28-12,wrn-28-10,wrn-28-8 --clusters depth:4 --budget 36.5M
  swn plan --members mobilenet-v2,wrn-28-5 --budget 9M --out plan.json
  swn plan recipes/quick.toml --set budget=20%
  swn plan --show plan.json";

/// Printed when `swn plan` is called with nothing to plan.
pub const NOTHING_TO_PLAN: &str = "\
nothing to plan: name the networks and a budget, for example

  swn plan --members wrn-28-10 --budget 10%

or a recipe, 'swn plan recipes/quick.toml'; 'swn plan --show plan.json' prints an existing plan,
'swn plan --help' lists everything";
