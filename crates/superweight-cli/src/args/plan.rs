//! What can be typed after `swn plan`.

use std::path::PathBuf;

use clap::Args;
use superweight::plan::{Coefficients, Scale, TilingChoice};

use super::values::{COEFFICIENTS, SCALES, TILINGS, one_of};

/// The flags that describe a plan; a recipe or `--show` excludes them.
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
/// Prints whether the budget can be met and how, what each part costs, how much is left over, and
/// the smallest budget that is feasible.
#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub struct PlanArgs {
    /// Recipe (TOML): print the plan that its search or training begins with.
    #[arg(conflicts_with_all = SHAPING)]
    pub recipe: Option<PathBuf>,

    /// Set a key of the recipe, such as budget=5%; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", requires = "recipe")]
    pub set: Vec<String>,

    /// Architectures, separated by commas: wrn-28-10, wrn-50-2, resnet-50, mobilenet-v2-0.5,
    /// cnn-16-32, mimo-3-wrn-28-10, msdnet-16-12.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub members: Vec<String>,

    /// Trainable parameters of all members: a count (365368, 500K, 36.5M) or a fraction of what the
    /// members have without sharing (10%).
    #[arg(long, allow_hyphen_values = true)]
    pub budget: Option<String>,

    /// Number of classes.
    #[arg(long, default_value_t = 100, allow_negative_numbers = true)]
    pub classes: usize,

    /// Channels, height and width of an image [default: 3x224x224 for bottleneck networks, else
    /// 3x32x32].
    #[arg(long, value_name = "CxHxW")]
    pub input: Option<String>,

    /// Which layers may share templates: single, depth:K, random:K[:SEED], per-layer, per-position,
    /// dense, or a JSON file with lists of layers ("0/block1.layer.0.conv1.weight" is that layer of
    /// member 0).
    #[arg(long, default_value = "single")]
    pub clusters: String,

    /// What a template is.
    #[arg(long, value_parser = one_of(TILINGS), default_value = "auto")]
    pub tiling: TilingChoice,

    /// Side of a block [default: grid takes the first of 8, 16 and 32 for which the budget pays for
    /// three templates per set; kronecker takes the one with the smallest templates].
    #[arg(long, allow_negative_numbers = true)]
    pub block: Option<usize>,

    /// Which layers use one set of coefficients when training starts.
    #[arg(long, value_parser = one_of(COEFFICIENTS), default_value = "shared")]
    pub coefficients: Coefficients,

    /// Fraction of the coefficients that all layers would have by themselves, kept free for
    /// refinement; 0 without refinement.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    pub reserve: f64,

    /// Sizes of the initial values [default: even for grid, kronecker and stretched, corner for
    /// rank-one, else balanced].
    #[arg(long, value_parser = one_of(SCALES))]
    pub scale: Option<Scale>,

    /// Share the stem too.
    #[arg(long)]
    pub share_stem: bool,

    /// Share the classifiers too, or not (--share-classifier=false) [default: where blocks make
    /// them smaller].
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

const USAGE: &str = "\
swn plan --members <NAMES> --budget <BUDGET> [OPTIONS]
       swn plan <RECIPE> [--set <KEY=VALUE>] [--out <FILE>] [--json]
       swn plan --show <FILE> [--json]";

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
