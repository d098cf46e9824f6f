//! What can be typed after `swn eval`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::common::OnArgs;

/// Evaluate a run: every member and every ensemble of members, on the test images and others.
///
/// Prints top-1 and top-5 accuracy, negative log-likelihood (NLL) and expected calibration error
/// (ECE) of each, and the diversity of the members. The predictions are kept in the run's folder,
/// so that every figure can be computed again.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct EvalArgs {
    /// Folder of the run.
    pub run: PathBuf,

    /// Evaluate on the validation images instead of the test images.
    #[arg(long, alias = "held-out")]
    pub validation: bool,

    /// Evaluate on the test images of another data set with the same shape and classes.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["validation", "corruptions", "corrupted", "interpolate"])]
    pub data: Option<String>,

    /// Evaluate also on corrupted test images made here (the constants of CIFAR-C, labelled
    /// "regenerated"): all types, or these, separated by commas.
    #[arg(long, value_name = "TYPES", value_delimiter = ',', num_args = 0..=1, default_missing_value = "all")]
    pub corruptions: Vec<String>,

    /// Evaluate also on the published files of CIFAR-10-C or CIFAR-100-C in this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "corruptions")]
    pub corrupted: Option<PathBuf>,

    /// Severities of the corruptions.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1,2,3,4,5")]
    pub severities: Vec<u64>,

    /// Folder with the textures frost1.png to frost5.jpg, which the type "frost" needs.
    #[arg(long, value_name = "DIR", requires = "corruptions")]
    pub frost: Option<PathBuf>,

    /// Seed of the corruptions' noise.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Print also the accuracy of all members together on each class, the lowest first, with the
    /// class that is predicted most often instead.
    #[arg(long)]
    pub classes: bool,

    /// Evaluate also 11 networks on the line between the weights of two members of one
    /// architecture.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub interpolate: Vec<usize>,

    /// Use only the first images.
    #[arg(long, value_name = "IMAGES")]
    pub images: Option<usize>,

    /// Images per forward pass.
    #[arg(long, alias = "batch", default_value_t = 128)]
    pub batch_size: usize,

    /// Folder for predictions and figures [default: RUN/evaluation].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Write the figures of all sets and subsets to this file, one line each.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,

    #[command(flatten)]
    pub on: OnArgs,
}

impl EvalArgs {
    /// An evaluation on the test images with defaults for the rest.
    pub fn of(run: &Path, on: OnArgs) -> Self {
        Self {
            run: run.to_owned(),
            validation: false,
            classes: false,
            data: None,
            corruptions: vec![],
            corrupted: None,
            severities: vec![],
            frost: None,
            seed: 0,
            interpolate: vec![],
            images: None,
            batch_size: 128,
            out: None,
            csv: None,
            on,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  swn eval runs/quick
  swn eval runs/quick --validation
  swn eval runs/three --corruptions --frost frost --csv figures.csv
  swn eval runs/three --corruptions fog,contrast --severities 1,5 --images 1000
  swn eval runs/three --corrupted CIFAR-100-C
  swn eval runs/pair --interpolate 0,1";
