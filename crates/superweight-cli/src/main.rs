//! `swn`: parse, run one verb, print one error.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod ui;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use crate::args::{Cli, Command, DemoArgs};
use crate::ui::{as_typed, message};

fn main() -> ExitCode {
    let cli = Cli::parse_or_explain();
    // tests/documents.rs parses the commands of all documents.
    if std::env::var_os("SWN_PARSE_ONLY").is_some() {
        return ExitCode::SUCCESS;
    }
    let mut out = io::stdout().lock();
    let result = match cli.command.unwrap_or_else(|| Command::Demo(DemoArgs::default())) {
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
        Command::Completions(args) => commands::completions::run(args, &mut out),
        Command::Results(args) => commands::results::run(args, &mut out),
    };
    match result.and_then(|code| Ok(out.flush().map(|()| code)?)) {
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
            // The exit code reports the failure even where this line cannot be written.
            let _ = writeln!(io::stderr(), "error: {}", as_typed(&message(&error)));
            ExitCode::FAILURE
        }
    }
}
