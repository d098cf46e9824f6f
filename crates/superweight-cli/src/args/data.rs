//! What can be typed behind `swn data`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Fetch, verify and list data sets.
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

/// Compare the files that are here with the official ones, by SHA-256.
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

const DATA_EXAMPLES: &str = "\
Examples:
  swn data fetch cifar-100
  swn data fetch cifar-100 --from ~/Downloads/cifar-100-python.tar.gz
  swn data fetch fashion-mnist --from /usr/share/datasets/fashion-mnist
  swn data verify";
