//! What can be typed after `swn anytime`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::common::OnArgs;

/// Measure the time and accuracy of every subset of a run's members, or of every exit, on this
/// machine.
///
/// Members are timed in turn, with weights composed once. All 2^M - 1 subsets of M members are
/// evaluated from one pass over the test images. A network with several exits is timed exit by
/// exit, each with those before it. The profile (anytime.json in the run's folder) decides what
/// 'swn predict --deadline' runs.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct AnytimeArgs {
    /// Folder of the run.
    pub run: PathBuf,

    /// Images per call, several sizes separated by commas; the profile of the first is kept.
    #[arg(long, alias = "batch", value_name = "SIZES", value_delimiter = ',', default_value = "1")]
    pub batch_size: Vec<usize>,

    /// Seconds to measure for, per batch size.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,

    /// Measure accuracy on the validation images instead of the test images.
    #[arg(long, alias = "held-out")]
    pub validation: bool,

    /// Measure accuracy on the first images only.
    #[arg(long, value_name = "IMAGES")]
    pub images: Option<usize>,

    #[command(flatten)]
    pub on: OnArgs,
}

impl AnytimeArgs {
    /// A measurement with batch size 1 and accuracy on the test images.
    pub fn of(run: &Path, on: OnArgs) -> Self {
        Self {
            run: run.to_owned(),
            batch_size: vec![1],
            seconds: 5.0,
            validation: false,
            images: None,
            on,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  swn anytime runs/three
  swn anytime runs/three --batch-size 1,128 --json";
