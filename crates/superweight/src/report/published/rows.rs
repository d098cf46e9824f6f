//! `rows.toml`: the rows of the table, the paper's figures for each, and the expected time.
//!
//! The paper's figures are in `comparison/paper.toml`; a row only refers to them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::ResultsError;
use super::record::USUAL_EPOCHS;
use crate::recipe::{Recipe, Resolved};
use crate::report::PaperRow;
use crate::report::comparison::paper::paper;

/// A row of the table, whether or not it has run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RowRequest {
    /// Order in which the rows are to run, from 1.
    pub item: u64,
    /// Text of the table's first column.
    pub what: String,
    /// Path of the recipe, relative to the folder above the results.
    pub recipe: String,
    /// The loaded recipe; its name is the row's name.
    pub resolved: Resolved,
    /// Number of epochs of a complete run: prior work trains longer than the paper's own networks.
    pub epochs: u64,
    /// The paper's row, if it has one.
    pub paper: Option<PaperRow>,
    /// Other methods of the paper in the same setting.
    pub beside: Vec<PaperRow>,
    /// Expected minutes of all steps, if the time of a step was measured.
    pub expected_minutes: Option<f64>,
    /// Why the row did not run.
    pub not_run: Option<String>,
}

/// Reference to a row of the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperCell {
    /// Table of the paper.
    pub table: String,
    /// Method, as the paper names it.
    pub method: String,
    /// Name of the data set.
    pub data: String,
    /// Budget, as `paper.toml` states it.
    pub budget: String,
    /// Other methods of the same table, data and budget.
    #[serde(default)]
    pub beside: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    row: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    item: u64,
    what: String,
    recipe: String,
    epochs: Option<u64>,
    paper: Option<PaperCell>,
    /// Measured milliseconds of one training step.
    step_ms: Option<f64>,
    not_run: Option<String>,
}

/// Reads `rows.toml` of a folder of results, and the recipes it names.
pub fn load_rows(results: &Path) -> Result<Vec<RowRequest>, ResultsError> {
    let path = results.join("rows.toml");
    let text = fs::read_to_string(&path).map_err(ResultsError::io("read", &path))?;
    let file: File = toml::from_str(&text).map_err(|error| ResultsError::file(&path, error))?;
    let paper = paper();
    let above = match results.parent() {
        Some(above) if above != Path::new("") => above.to_owned(),
        Some(_) => PathBuf::from("."),
        None => results.join(".."),
    };
    file.row.into_iter().map(|row| row.load(&path, &above, &paper)).collect()
}

impl Written {
    fn load(
        self,
        file: &Path,
        above: &Path,
        paper: &[PaperRow],
    ) -> Result<RowRequest, ResultsError> {
        let none: [&str; 0] = [];
        let resolved = Recipe::load(&above.join(&self.recipe), &none)?.resolve()?;
        let find = |cell: &PaperCell, method: &str| {
            let it = paper.iter().find(|row| {
                (row.table.as_str(), row.method.as_str()) == (cell.table.as_str(), method)
                    && (row.data.as_str(), row.budget.as_str())
                        == (cell.data.as_str(), cell.budget.as_str())
            });
            let where_ = format!("{}, {method}, {}, {}", cell.table, cell.data, cell.budget);
            it.cloned()
                .ok_or_else(|| ResultsError::file(file, format!("the paper has no row '{where_}'")))
        };
        let cell = self.paper.as_ref();
        let beside = cell.into_iter().flat_map(|cell| cell.beside.iter().map(|m| find(cell, m)));
        let images = resolved.data.description().map(|set| set.images.0).unwrap_or(0);
        let steps = images.saturating_sub(resolved.data.validation) / resolved.train.batch_size;
        let epochs =
            resolved.train.epochs + resolved.search.as_ref().map_or(0, |search| search.epochs);
        Ok(RowRequest {
            beside: beside.collect::<Result<_, _>>()?,
            paper: cell.map(|cell| find(cell, &cell.method)).transpose()?,
            expected_minutes: self.step_ms.map(|ms| ms * steps as f64 * epochs as f64 / 60_000.0),
            item: self.item,
            what: self.what,
            recipe: self.recipe,
            resolved,
            epochs: self.epochs.unwrap_or(USUAL_EPOCHS),
            not_run: self.not_run,
        })
    }
}
