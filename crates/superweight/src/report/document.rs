//! The data of a report: what the page contains and what `--format json` prints.

use std::path::Path;

use serde::Serialize;

use super::comparison::Comparison;
use super::error::ReportError;
use super::gather::RunView;

/// One or more runs, and their comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Version of the data; the page reads only its own.
    pub version: u32,
    /// Name and version of the program that made the report.
    pub program: String,
    /// The runs, in the order given.
    pub runs: Vec<RunView>,
    /// Comparison of the runs; none for one run.
    pub comparison: Option<Comparison>,
}

impl Report {
    /// Reads run folders.
    pub fn open(runs: &[impl AsRef<Path>]) -> Result<Self, ReportError> {
        let runs =
            runs.iter().map(|run| RunView::open(run.as_ref())).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::new(runs))
    }

    /// A report of runs that were read.
    pub fn new(runs: Vec<RunView>) -> Self {
        let program = concat!("superweight ", env!("CARGO_PKG_VERSION")).to_owned();
        Self { version: 1, program, comparison: Comparison::new(&runs), runs }
    }

    /// The data as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a report holds numbers, texts and lists")
    }
}
