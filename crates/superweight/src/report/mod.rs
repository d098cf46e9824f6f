//! Reports on runs: one HTML file with everything inside, or Markdown, CSV, JSON, SVG.
//!
//! ```text
//! run folder ─► RunView ─┐                    ┌─► page (HTML, one file)
//! run folder ─► RunView ─┼─► Report ──────────┼─► markdown, csv, json
//! paper.toml ────────────┘   (+ Comparison)   └─► plots (SVG)
//! ```
//!
//! [`Report`] is the data: the page contains it and `--format json` prints it, so that every figure
//! of the page is available as a number. The page is plain HTML, CSS and JavaScript, concatenated
//! here, without a bundler, a library or a request. Text from files enters it as JSON and is set as
//! text, never as HTML.
//!
//! ```no_run
//! use superweight::report::Report;
//!
//! let report = Report::open(&["runs/a", "runs/b"])?;
//! std::fs::write("report.html", report.to_html())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `document` | the data of a report |
//! | `gather` | reading a run folder |
//! | `headline`, `curves`, `sharing`, `replay` | one section of the page each, as pure functions |
//! | `evaluated`, `evaluation` | figures of `swn eval` and `swn anytime` |
//! | `comparison` | several runs beside each other and beside the paper's tables |
//! | `page`, `page/` | the HTML file |
//! | `text`, `svg`, `plots` | Markdown, CSV and SVG |
//! | `published` | runs in `results/` and their table |

mod base64;
mod comparison;
mod curves;
mod document;
mod error;
mod evaluated;
mod evaluation;
mod gather;
mod headline;
mod page;
mod plots;
pub mod published;
mod replay;
mod sharing;
mod svg;
mod text;

use std::path::{Path, PathBuf};

pub use comparison::paper::{PaperRow, PaperValue, paper};
pub use comparison::{Ablation, Beside, Comparison, Measure, Row, Sweep};
pub(crate) use comparison::{Keys, keys, mean_and_std};
pub use curves::{Curves, Mark, PhaseSpan, Series};
pub use document::Report;
pub use error::ReportError;
pub use evaluation::{
    BinView, CorruptionRow, Corruptions, Evaluation, Interpolation, Latency, LatencyView,
    SubsetView,
};
pub use gather::RunView;
pub use headline::{About, Accuracy, Headline};
pub use replay::{ClusterReplay, GroupChoice, GroupReplay, Step};
pub use sharing::{Alpha, GroupView, LayerView, SetView, Sharing, SuperWeightView, TileView};

pub(crate) use text::{plain, row as table_row};

use crate::fs::write_whole;

/// Largest data of a page in bytes: small enough for a mail, and for a browser to read at once.
pub const LARGEST_DATA: usize = 2_500_000;

impl Report {
    /// The page as one HTML file. A page of many runs keeps everything that compares them; if its
    /// data are larger than [`LARGEST_DATA`], the last runs lose their similarities and pictures of
    /// coefficients.
    pub fn to_html(&self) -> String {
        let mut report = self.clone();
        let mut over = report.to_json().len().saturating_sub(LARGEST_DATA);
        for run in report.runs.iter_mut().skip(1).rev() {
            if over == 0 {
                break;
            }
            let length = |run: &RunView| serde_json::to_string(run).map_or(0, |text| text.len());
            let before = length(run);
            run.shorten();
            over = over.saturating_sub(before - length(run));
        }
        page::html(&report)
    }

    /// Tables as Markdown.
    pub fn to_markdown(&self) -> String {
        text::markdown(self)
    }

    /// One line per run and figure, as CSV.
    pub fn to_csv(&self) -> String {
        text::csv(self)
    }

    /// Writes every figure as an SVG file into a folder and returns the paths.
    pub fn write_plots(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
        plots::write(self, folder)
    }
}

/// Writes `report.html` into a run folder and returns its path. Training ends with this.
pub fn write(run: &Path) -> Result<PathBuf, ReportError> {
    let path = run.join("report.html");
    let report = Report::open(&[run])?;
    write_whole(&path, report.to_html().as_bytes())
        .map_err(|source| ReportError::Write { path: path.clone(), source })?;
    Ok(path)
}
