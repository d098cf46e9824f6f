//! `swn data`: data sets; one file per subcommand.

mod fetch;
mod folder;
mod list;
mod pack;
mod verify;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

use crate::args::{DataArgs, DataCommand};

pub fn run(args: DataArgs, out: &mut impl Write) -> Result<ExitCode> {
    match args.command {
        DataCommand::List(args) => list::run(args, out),
        DataCommand::Fetch(args) => fetch::run(args, out),
        DataCommand::Verify(args) => verify::run(args, out),
        DataCommand::Pack(args) => pack::run(args, out),
    }
}
