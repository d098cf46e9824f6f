//! What can be typed behind `swn data`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use superweight::data::MOST_SIDE;

/// Fetch, verify and list data sets, and make them of pictures.
///
/// They lie in $SWN_DATA, else in superweight/data of the user's cache ($XDG_CACHE_HOME or ~/.cache).
#[derive(Args)]
#[command(after_help = DATA_EXAMPLES)]
pub struct DataArgs {
    #[command(subcommand)]
    pub command: DataCommand,
}

#[derive(Subcommand)]
pub enum DataCommand {
    List(ListArgs),
    Fetch(FetchArgs),
    Verify(VerifyArgs),
    Pack(PackArgs),
}

/// Which data sets are known, and which are here.
#[derive(Args)]
pub struct ListArgs {
    /// Look in this folder [default: the data folder].
    #[arg(long = "in", value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Download a data set, or take it from files already there; verify it and put it into the data folder.
///
/// Downloads by curl or wget from the official address; from $SWN_DATA_MIRROR, if set, an address with the same
/// files. Nothing is replaced before the new files are whole and verified.
#[derive(Args)]
pub struct FetchArgs {
    /// Which one: 'swn data list' names them.
    pub name: String,

    /// Take it from this file, folder or archive (.tar.gz, .gz; CIFAR in binary or python layout).
    #[arg(long, value_name = "PATH")]
    pub from: Option<PathBuf>,

    /// Put it into this folder [default: the data folder].
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Compare the files that are here with the official ones, or with what was packed, by SHA-256.
#[derive(Args)]
pub struct VerifyArgs {
    /// Which data set [default: all that are here].
    pub name: Option<String>,

    /// Look in this folder [default: the data folder].
    #[arg(long = "in", value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Make a data set of pictures of your own.
///
/// The folder has a folder of PNG or JPEG files for every class, in train/ and test/ (or val/, valid/, validation/), or a
/// folder per class and nothing else; then a share of every class becomes the test set. Folders in a class's folder are
/// looked through. Pictures of any size are made one size: the largest middle part of its proportions. Recipes then have
/// data.name = "NAME"; data.flip = false is for pictures whose mirror image means something else.
///
/// A set may be larger than memory: one of more than half of it, or of $SWN_IMAGES_MIB, is read from the disk as images
/// are drawn. Recipes of ImageNet train on what is packed as 'imagenet' (--size 224 takes 200 GB).
#[derive(Args)]
#[command(after_help = PACK_EXAMPLES)]
pub struct PackArgs {
    /// What to call it.
    pub name: String,

    /// The folder of pictures.
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,

    /// Size of the images: a side, or HEIGHTxWIDTH.
    #[arg(long, default_value = "32")]
    pub size: ImageSize,

    /// One channel instead of three.
    #[arg(long)]
    pub grey: bool,

    /// Share of every class that becomes the test set, where there is no folder of test pictures [default: 20%].
    #[arg(long, value_name = "SHARE")]
    pub test: Option<TestShare>,

    /// Decides which.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Leave out pictures that cannot be read, and say which.
    #[arg(long)]
    pub skip_unreadable: bool,

    /// Put it in the place of a set that was packed under this name.
    #[arg(long)]
    pub replace: bool,

    /// Put it into this folder [default: the data folder].
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Height and width.
#[derive(Clone, Copy)]
pub struct ImageSize(pub usize, pub usize);

impl FromStr for ImageSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (height, width) = text.split_once(['x', '×']).unwrap_or((text, text));
        let side = |text: &str| text.parse().ok().filter(|side| (1..=MOST_SIDE).contains(side));
        match (side(height), side(width)) {
            (Some(height), Some(width)) => Ok(Self(height, width)),
            _ => Err(format!("a side (64) or HEIGHTxWIDTH (48x64), each from 1 to {MOST_SIDE}")),
        }
    }
}

/// Above 0 and below 1.
#[derive(Clone, Copy)]
pub struct TestShare(pub f64);

impl FromStr for TestShare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let share = match text.strip_suffix('%') {
            Some(percent) => number(percent).map(|percent| percent / 100.0),
            None => number(text),
        };
        let share = share.filter(|share| *share > 0.0 && *share < 1.0);
        share.map(Self).ok_or_else(|| "a share above 0% and below 100%, such as 20%".to_owned())
    }
}

const PACK_EXAMPLES: &str = "\
Examples:
  swn data pack birds --from ~/pictures/birds --size 64
  swn train recipes/pictures.toml --set data.name=birds";

const DATA_EXAMPLES: &str = "\
Examples:
  swn data fetch cifar-100
  swn data fetch cifar-100 --from ~/Downloads/cifar-100-python.tar.gz
  swn data fetch fashion-mnist --from /usr/share/datasets/fashion-mnist
  swn data pack birds --from ~/pictures/birds --size 64
  swn data verify";
