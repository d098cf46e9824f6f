//! `swn data`: data sets; one file per subcommand.

mod fetch;
mod list;
mod pack;
mod verify;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use superweight::data::standard_folder;

use crate::args::{DataArgs, DataCommand};

pub fn run(args: DataArgs, out: &mut impl Write) -> Result<ExitCode> {
    match args.command {
        DataCommand::List(args) => list::run(args, out),
        DataCommand::Fetch(args) => fetch::run(args, out),
        DataCommand::Verify(args) => verify::run(args, out),
        DataCommand::Pack(args) => pack::run(args, out),
    }
}

/// The requested folder, or the standard one.
fn folder(requested: Option<PathBuf>) -> Result<PathBuf> {
    Ok(requested.map_or_else(standard_folder, Ok)?)
}
