//! What can be typed after `swn data`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use superweight::data::MAX_SIDE;

/// Fetch, verify and list data sets, and make them from pictures.
///
/// The data folder is $SWN_DATA; by default it is superweight/data in the user's cache
/// ($XDG_CACHE_HOME or ~/.cache).
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

/// List the known data sets and which of them are on this machine.
#[derive(Args)]
pub struct ListArgs {
    /// Folder to read [default: the data folder].
    #[arg(long = "in", value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Download a data set, or read it from local files; verify it and write it into the data folder.
///
/// curl or wget downloads from the official address, or from $SWN_DATA_MIRROR, an address with the
/// same files. Existing files are replaced only after the new ones are complete and verified.
#[derive(Args)]
pub struct FetchArgs {
    /// Name of the data set, as in 'swn data list'.
    pub name: String,

    /// Read this file, folder or archive (.tar.gz, .gz; CIFAR in binary or python layout) instead
    /// of downloading.
    #[arg(long, value_name = "PATH")]
    pub from: Option<PathBuf>,

    /// Folder to write the data set into [default: the data folder].
    #[arg(long, alias = "to", value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Compare the files on this machine with the official ones, or with what was packed, by SHA-256.
#[derive(Args)]
pub struct VerifyArgs {
    /// Name of the data set [default: all that are on this machine].
    pub name: Option<String>,

    /// Folder to read [default: the data folder].
    #[arg(long = "in", value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Make a data set from your own pictures.
///
/// The folder has train/ and test/ (or val/, valid/, validation/), each with a folder of PNG, JPEG,
/// WebP or GIF files per class; or it has the folders of the classes only, and a fraction of every
/// class becomes the test set. Folders within a class's folder are searched too. Every picture is
/// cropped to the middle and scaled to one size. Recipes then have data.name = "NAME"; data.flip =
/// false is for pictures whose mirror image belongs to another class.
///
/// A set may be larger than memory: a set of more than half of the memory, or of $SWN_IMAGES_MIB,
/// is read from the disk during training. Recipes of ImageNet train on the set packed as 'imagenet'
/// (--size 224 takes 200 GB).
#[derive(Args)]
#[command(after_help = PACK_EXAMPLES)]
pub struct PackArgs {
    /// Name of the new data set.
    pub name: String,

    /// Folder of the pictures.
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,

    /// Size of the images: a side (64) or HEIGHTxWIDTH (48x64).
    #[arg(long, default_value = "32")]
    pub size: ImageSize,

    /// Make grey images, with one channel instead of three.
    #[arg(long)]
    pub grey: bool,

    /// Fraction of every class that becomes the test set, if there is no folder of test pictures
    /// [default: 20%].
    #[arg(long, value_name = "FRACTION")]
    pub test: Option<TestFraction>,

    /// Seed of the choice of test pictures.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Leave out pictures that cannot be read, and list them.
    #[arg(long)]
    pub skip_unreadable: bool,

    /// Replace a set that was packed under this name.
    #[arg(long)]
    pub replace: bool,

    /// Folder to write the data set into [default: the data folder].
    #[arg(long, alias = "to", value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Height and width of an image in pixels.
#[derive(Clone, Copy)]
pub struct ImageSize(pub usize, pub usize);

impl FromStr for ImageSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (height, width) = text.split_once(['x', '×']).unwrap_or((text, text));
        let side = |text: &str| text.parse().ok().filter(|side| (1..=MAX_SIDE).contains(side));
        match (side(height), side(width)) {
            (Some(height), Some(width)) => Ok(Self(height, width)),
            _ => {
                Err(format!("write a side (64) or HEIGHTxWIDTH (48x64), each from 1 to {MAX_SIDE}"))
            }
        }
    }
}

/// Fraction of pictures for the test set, above 0 and below 1.
#[derive(Clone, Copy)]
pub struct TestFraction(pub f64);

impl FromStr for TestFraction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let fraction = match text.strip_suffix('%') {
            Some(percent) => number(percent).map(|percent| percent / 100.0),
            None => number(text),
        };
        let fraction = fraction.filter(|fraction| *fraction > 0.0 && *fraction < 1.0);
        let wrong = || "write a fraction above 0% and below 100%, such as 20%".to_owned();
        fraction.map(Self).ok_or_else(wrong)
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
