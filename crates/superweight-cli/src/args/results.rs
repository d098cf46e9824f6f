//! What can be typed after `swn results`: a verb for maintainers of the published results.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use superweight::report::published::ChosenOn;

use super::values::{CHOSEN_ON, one_of};

/// Publish runs and make the table of published runs (for maintainers).
///
/// results/ of the repository holds published runs: their logs, plans and predictions. The table of
/// results/README.md is computed from them, so that a test can compute it again. ops/README.md
/// describes the steps.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ResultsArgs {
    #[command(subcommand)]
    pub command: ResultsCommand,
}

#[derive(Subcommand)]
pub enum ResultsCommand {
    Publish(PublishArgs),
    Table(TableArgs),
}

/// Copy log, plan, predictions and figures of a finished, evaluated run into a folder.
#[derive(Args)]
pub struct PublishArgs {
    /// Folder of the run.
    pub run: PathBuf,

    /// Folder to publish into, such as results/cifar-100/NAME-SEED.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,

    /// Commit of the program that trained the run.
    #[arg(long, value_name = "HASH", value_parser = commit)]
    pub commit: String,

    /// Row of the table that the run belongs to [default: the run's name, which is its recipe's].
    #[arg(long, value_name = "NAME")]
    pub row: Option<String>,

    /// Images that the settings were chosen on.
    #[arg(long, value_name = "IMAGES", value_parser = one_of(CHOSEN_ON), default_value = "paper")]
    pub chosen_on: ChosenOn,
}

/// Make the table of published runs beside the paper's figures, in Markdown.
#[derive(Args)]
pub struct TableArgs {
    /// Folder of published runs, with rows.toml in it.
    #[arg(value_name = "DIR")]
    pub results: PathBuf,

    /// Put the table between the two markers of this file [default: print it].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// A commit's name as git prints it, whole or its beginning.
fn commit(text: &str) -> Result<String, String> {
    let hexadecimal =
        text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    match hexadecimal && (7..=64).contains(&text.len()) {
        true => Ok(text.to_owned()),
        false => Err("not a commit: write at least seven hexadecimal digits, as 'git rev-parse --short HEAD' \
                      prints them"
            .to_owned()),
    }
}

const EXAMPLES: &str = "\
Examples:
  swn results publish runs/quick --out results/quick/quick-0 --commit 8802b29
  swn results publish runs/tau --out results/trials/tau-0 --commit 8802b29 --chosen-on validation
  swn results table results --out results/README.md";
