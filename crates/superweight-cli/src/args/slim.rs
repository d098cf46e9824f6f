//! What can be typed after `swn slim`.

use std::path::PathBuf;

use clap::Args;

use super::common::OnArgs;

/// Find where a trained network can do with fewer channels (AutoSlim).
///
/// Removes a few channels at a time where the loss rises least, until the network needs no more
/// multiply-adds than the target. The result is an architecture such as cnn-16-32@8-24, to be
/// trained from the beginning. The loss is measured on validation images (on training images if the
/// run has none), never on test images. The run should have been trained in several widths, as
/// Universally Slimmable Networks are: only then do the first channels of a layer matter most.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct SlimArgs {
    /// Folder of the run.
    pub run: PathBuf,

    /// Multiply-adds to reach, several targets separated by commas: a fraction of the network's
    /// (50%), a count (1.5G), or those of another network (wrn-28-4).
    #[arg(long, alias = "to", value_name = "WORK", default_value = "50%")]
    pub target: Vec<String>,

    /// Index of the member to slim [default: the member with most multiply-adds].
    #[arg(long, alias = "member", value_name = "NUMBER")]
    pub member_id: Option<usize>,

    /// Channels to remove at a time [default: an eighth of a layer's channels, in multiples of
    /// eight].
    #[arg(long, value_name = "CHANNELS", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub step: Option<u32>,

    /// Images to measure the loss on [default: 2000, or all if there are fewer].
    #[arg(long, value_name = "IMAGES", value_parser = clap::value_parser!(u32).range(2..))]
    pub images: Option<u32>,

    /// Images per forward pass; batch norm computes its statistics over them.
    #[arg(long, alias = "batch", default_value_t = 128, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub batch_size: u32,

    #[command(flatten)]
    pub on: OnArgs,
}

const EXAMPLES: &str = "\
Examples:
  swn train recipes/figure-3/universally-slimmable-cifar-100.toml --validation 10% --name widths
  swn slim runs/widths --target wrn-28-5,wrn-28-4,wrn-28-3
  swn train recipes/figure-3/auto-slim-cifar-100.toml --set members=NETWORK";
