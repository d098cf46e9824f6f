//! `swn`: parse, run one verb, print one error.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod duration;
mod signals;
mod size;
mod table;
mod ticker;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command, DemoArgs};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = io::stdout().lock();
    let answer = match cli.command.unwrap_or_else(|| Command::Demo(DemoArgs::default())) {
        Command::Demo(args) => commands::demo::run(args, &mut out),
        Command::Plan(args) => commands::plan::run(args, &mut out),
        Command::Search(args) => commands::search::run(args, &mut out),
        Command::Sweep(args) => commands::sweep::run(args, &mut out),
        Command::Train(args) => commands::train::run(args, &mut out),
        Command::Eval(args) => commands::eval::run(args, &mut out),
        Command::Anytime(args) => commands::anytime::run(args, &mut out),
        Command::Predict(args) => commands::predict::run(args, &mut out),
        Command::Export(args) => commands::export::run(args, &mut out),
        Command::Slim(args) => commands::slim::run(args, &mut out),
        Command::Report(args) => commands::report::run(args, &mut out),
        Command::Bench(args) => commands::bench::run(args, &mut out),
        Command::Data(args) => commands::data::run(args, &mut out),
    };
    match answer.and_then(|code| Ok(out.flush().map(|()| code)?)) {
        Ok(code) => code,
        // `swn plan … | head` is no error.
        Err(error)
            if error
                .downcast_ref::<io::Error>()
                .is_some_and(|e| e.kind() == ErrorKind::BrokenPipe) =>
        {
            ExitCode::SUCCESS
        }
        Err(error) => {
            // Where even this cannot be written, the exit code still tells.
            let _ = writeln!(io::stderr(), "error: {}", told(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes, each once: some messages have their cause in them already.
fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        match text.is_empty() {
            true => text = cause,
            false if text.contains(&cause) => {}
            false => text += &format!(": {cause}"),
        }
    }
    text
}
