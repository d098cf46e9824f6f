//! What can be typed. This folder holds clap definitions only; `commands` runs them.
#![allow(rustdoc::broken_intra_doc_links)] // these comments are help text: [:SEED] is no link

mod anytime;
mod bench;
mod common;
mod completions;
mod data;
mod eval;
mod export;
mod plan;
mod predict;
mod renamed;
mod report;
mod results;
mod slim;
mod train;
mod values;

use clap::{CommandFactory, Parser, Subcommand};

pub use anytime::AnytimeArgs;
pub use bench::{BenchArgs, BenchCommand, BenchOptions, TuneOptions};
pub use common::OnArgs;
pub use completions::CompletionsArgs;
pub use data::{DataArgs, DataCommand, FetchArgs, ListArgs, PackArgs, VerifyArgs};
pub use eval::EvalArgs;
pub use export::{ExportArgs, FormatArg};
pub use plan::{NOTHING_TO_PLAN, PlanArgs};
pub use predict::PredictArgs;
pub use report::{ReportArgs, ReportFormat};
pub use results::{PublishArgs, ResultsArgs, ResultsCommand, TableArgs};
pub use slim::SlimArgs;
pub use train::{DemoArgs, SearchArgs, SweepArgs, TrainArgs};

/// Find which layers share parameters, train, and use the result.
///
/// Without a command: the demo. It prints what it does and where it writes before it begins.
#[derive(Parser)]
#[command(name = "swn", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Subcommand)]
pub enum Command {
    Demo(DemoArgs),
    Plan(PlanArgs),
    Search(SearchArgs),
    Sweep(SweepArgs),
    Train(TrainArgs),
    Eval(EvalArgs),
    Anytime(AnytimeArgs),
    Predict(PredictArgs),
    Export(ExportArgs),
    Slim(SlimArgs),
    Report(ReportArgs),
    Bench(BenchArgs),
    Data(DataArgs),
    Completions(CompletionsArgs),
    #[command(hide = true)]
    Results(ResultsArgs),
}

impl Cli {
    /// Parses the command line. An error ends the program; one about a flag that has moved names
    /// the new flag.
    pub fn parse_or_explain() -> Self {
        Self::try_parse().unwrap_or_else(|error| renamed::explain(error).exit())
    }

    /// The definition of all verbs and flags.
    pub fn definition() -> clap::Command {
        Self::command()
    }
}
