//! `swn completions`: the script by which a shell completes verbs and flags.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

use crate::args::{Cli, CompletionsArgs};

pub fn run(args: CompletionsArgs, out: &mut impl Write) -> Result<ExitCode> {
    // The generator panics where it cannot write, so it writes into memory.
    let mut script = vec![];
    clap_complete::generate(args.shell, &mut Cli::definition(), "swn", &mut script);
    out.write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
