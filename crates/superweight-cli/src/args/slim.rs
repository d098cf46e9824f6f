//! What can be typed behind `swn slim`.

use std::path::PathBuf;

use clap::Args;

use super::OnArgs;

/// Find widths of a network's own: where a trained network can do with fewer channels (AutoSlim).
///
/// Takes some channels at a time where the loss is least without them, until the network does as little work as asked; what is
/// left is an architecture such as cnn-16-32@8-24, to be trained from the beginning. The loss is that of held-out images
/// (training images where none were held out), never of test images. The run should have been trained in several widths, as
/// Universally Slimmable Networks are: others have no reason to keep what matters in their first channels.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct SlimArgs {
    /// Folder of the run.
    pub run: PathBuf,

    /// Multiply-adds to come down to, several separated by commas: a share of the network's (50%), a count (1.5G), or
    /// those of another network (wrn-28-4).
    #[arg(long, value_name = "WORK", default_value = "50%")]
    pub to: Vec<String>,

    /// The member [default: the one that does most work].
    #[arg(long, value_name = "NUMBER")]
    pub member: Option<usize>,

    /// Channels that are taken at once [default: an eighth of what there is, in eights].
    #[arg(long, value_name = "CHANNELS", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub step: Option<u32>,

    /// Judge by so many images [default: 2000, or as many as there are].
    #[arg(long, value_name = "IMAGES", value_parser = clap::value_parser!(u32).range(2..))]
    pub images: Option<u32>,

    /// Images of a step; batch norm takes its statistics over them.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub batch: u32,

    #[command(flatten)]
    pub on: OnArgs,
}

const EXAMPLES: &str = "\
Examples:
  swn train recipes/figure-3/universally-slimmable-cifar-100.toml --validation 10% --name widths
  swn slim runs/widths --to wrn-28-5,wrn-28-4,wrn-28-3
  swn train recipes/figure-3/auto-slim-cifar-100.toml --set members=NETWORK";
