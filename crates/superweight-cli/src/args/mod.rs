//! What can be typed. Only clap lives here; meaning is given to it in `commands`.
#![allow(rustdoc::broken_intra_doc_links)] // these comments are help text: [:SEED] is no link

mod bench;
mod data;
mod plan;
mod slim;
mod train;
mod trained;

use clap::{Args, Parser, Subcommand};

pub use bench::{BenchArgs, BenchCommand, BenchOptions, PrecisionArg, TuneOptions, TuningArg};
pub use data::{DataArgs, DataCommand, FetchArgs, ListArgs, PackArgs, VerifyArgs};
pub use plan::{CoefficientsArg, NOTHING_TO_PLAN, PlanArgs, ScaleArg, TilingArg};
pub use slim::SlimArgs;
pub use train::{DemoArgs, SearchArgs, SweepArgs, TrainArgs};
pub use trained::{
    AnytimeArgs, ChoicesArg, EvalArgs, ExportArgs, FormatArg, PredictArgs, ReportArgs, ReportFormat,
};

/// Find which layers share parameters, train, and use the result.
///
/// Without a command: the demo.
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
}

/// Where to compute, and how to print.
#[derive(Args)]
pub struct OnArgs {
    /// Where to run: auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    pub device: String,

    /// Threads of the processor; 0 is one per core.
    #[arg(long, default_value_t = 0)]
    pub threads: usize,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
