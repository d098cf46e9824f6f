//! What can be typed after `swn predict`.

use std::path::PathBuf;

use clap::Args;

use super::common::OnArgs;

/// Classify pictures, within a deadline if one is given.
///
/// With a deadline, runs the members of the most accurate subset that fits it by the profile of
/// 'swn anytime', the fastest first, and stops before a member that would end too late. Exits run
/// in their order, up to the chosen one. If time runs out early, the prediction is that of the most
/// accurate subset that has run. Without a deadline all members run, and the prediction is the mean
/// of their probabilities.
///
/// A picture that cannot be read is reported, the others are classified, and the exit code is 1.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PredictArgs {
    /// Folder of the run.
    pub run: PathBuf,

    /// Pictures (PNG, JPEG, WebP or GIF), folders of pictures, or '-' to read one path per line
    /// from standard input.
    #[arg(required = true, value_name = "PICTURE")]
    pub pictures: Vec<PathBuf>,

    /// Time for each prediction, such as 5ms, 800us or 1s, without decoding the picture.
    #[arg(long, value_name = "TIME")]
    pub deadline: Option<String>,

    /// Classes to print, the most probable first.
    #[arg(long, value_name = "CLASSES", default_value_t = 3)]
    pub top: usize,

    /// File of the profile [default: RUN/anytime.json].
    #[arg(long, value_name = "FILE", requires = "deadline")]
    pub profile: Option<PathBuf>,

    #[command(flatten)]
    pub on: OnArgs,
}

const EXAMPLES: &str = "\
Examples:
  swn predict runs/three shoe.png bag.jpg
  swn predict runs/three pictures
  swn predict runs/three --deadline 5ms shoe.png
  find pictures -name '*.jpg' | swn predict runs/three - --json";
