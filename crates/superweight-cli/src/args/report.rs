//! What can be typed after `swn report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Show runs as one HTML page that needs no other file.
///
/// The page of one run has its accuracy, its training curves, which layers share what and why, and
/// what other thresholds would have given. The page of several runs has a table beside the paper's
/// figures, means over seeds, and all curves.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// Folders of the runs.
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,

    /// Write to this file [default: report.html in the run's folder, or here for several runs;
    /// other formats are printed].
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Format of the report.
    #[arg(long, value_enum, default_value_t)]
    pub format: ReportFormat,

    /// Write every figure also as an SVG file into this folder.
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
}

/// A format of the report.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// A page that opens in any browser, without a network.
    #[default]
    Html,
    /// Tables in Markdown, for a README or an issue.
    Md,
    /// One line per run and figure.
    Csv,
    /// All data of the page.
    Json,
}

const EXAMPLES: &str = "\
Examples:
  swn report runs/quick
  swn report runs/swn-seed-* runs/no-refine-seed-* --out comparison.html
  swn report runs/* --format md
  swn report runs/quick --plots figures";
