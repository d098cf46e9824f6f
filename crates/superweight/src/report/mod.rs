//! Run folders as something to look at: one HTML file with everything inside, or Markdown, CSV, JSON, SVG.
//!
//! ```text
//! run folder ─► RunView ─┐                    ┌─► page (HTML, one file)
//! run folder ─► RunView ─┼─► Report ──────────┼─► markdown, csv, json
//! paper.toml ────────────┘   (+ Comparison)   └─► plots (SVG)
//! ```
//!
//! A report is data first: [`Report`] is what the page has inside and what `--format json` prints, so that every figure
//! in the page can be had as a number. The page is plain HTML, CSS and JavaScript, concatenated here: no bundler, no
//! library, no request to anyone. All text from files gets into it as JSON and is set as text, never as HTML.
//!
//! | file | question |
//! |---|---|
//! | `gather` | which files of a run say something? |
//! | `headline`, `curves`, `sharing`, `replay` | what do they say? pure functions, one section of the page each |
//! | `evaluated`, `evaluation` | what are the members worth? |
//! | `paper`, `compare` | and beside each other, and beside the paper's tables? |
//! | `page`, `page/` | how is it one HTML file? |
//! | `text`, `svg`, `plots` | and for those who want no page? |

mod base64;
mod comparison;
mod curves;
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

use serde::Serialize;

pub use comparison::{Ablation, Beside, Comparison, Measure, Row, Sweep};
pub(crate) use comparison::{Keys, keys, mean_and_deviation};
pub use curves::{Curves, Mark, PhaseSpan, Series};
pub use error::ReportError;
pub use evaluation::{
    BinView, CorruptionRow, Corruptions, Evaluation, Interpolation, Latency, LatencyView,
    SubsetView,
};
pub use gather::RunView;
pub use headline::{About, Accuracy, Headline};
pub use comparison::paper::{PaperRow, PaperValue, paper};
pub use replay::{ClusterReplay, GroupChoice, GroupReplay, Step};
pub use sharing::{Alpha, GroupView, LayerView, SetView, Sharing, SuperWeightView, TileView};

pub(crate) use text::{plain, row as table_row};

use crate::fs::write_whole;

/// Bytes of data in a page: what a mail still takes and a browser reads at once.
pub const LARGEST_DATA: usize = 2_500_000;

/// Everything a report shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Of this data; the page reads its own only.
    pub version: u32,
    /// The program that made it.
    pub program: String,
    /// In the order given.
    pub runs: Vec<RunView>,
    /// Of more than one.
    pub comparison: Option<Comparison>,
}

impl Report {
    /// Reads run folders.
    pub fn open(runs: &[impl AsRef<Path>]) -> Result<Self, ReportError> {
        let runs =
            runs.iter().map(|run| RunView::open(run.as_ref())).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::new(runs))
    }

    /// Of runs that were read.
    pub fn new(runs: Vec<RunView>) -> Self {
        let program = concat!("superweight ", env!("CARGO_PKG_VERSION")).to_owned();
        Self { version: 1, program, comparison: Comparison::new(&runs), runs }
    }

    /// The page. Of many runs it keeps what compares them; the last ones lose what only their own report needs, until
    /// it is no larger than [`LARGEST_DATA`].
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

    /// Tables.
    pub fn to_markdown(&self) -> String {
        text::markdown(self)
    }

    /// Figures, a line each.
    pub fn to_csv(&self) -> String {
        text::csv(self)
    }

    /// Every figure as an SVG file in a folder; their paths.
    pub fn write_plots(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
        plots::write(self, folder)
    }

    /// The data.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a report holds numbers, texts and lists")
    }
}

/// Writes `report.html` into a run folder and says where it is: what training ends with.
pub fn write(run: &Path) -> Result<PathBuf, ReportError> {
    let path = run.join("report.html");
    let report = Report::open(&[run])?;
    write_whole(&path, report.to_html().as_bytes())
        .map_err(|source| ReportError::Write { path: path.clone(), source })?;
    Ok(path)
}
