//! The paper's figures as data. `paper.toml` is the only place that states them.

use std::collections::BTreeMap;

use serde::Deserialize;
use superweight_plan::Budget;

use crate::report::gather::RunView;

/// A row of one of the paper's tables.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PaperRow {
    /// Table of the paper.
    pub table: String,
    /// Method, as the paper names it.
    pub method: String,
    /// Name of the data set.
    pub data: String,
    /// Architectures of the members.
    pub members: Vec<String>,
    /// Budget, as in a recipe.
    pub budget: String,
    /// Strategy that reproduces the row; none for other methods.
    pub strategy: Option<String>,
    /// Initial clusters, if they are not the default.
    pub clusters: Option<String>,
    /// Tiling of the method, if only runs with this tiling reproduce it.
    pub tiling: Option<String>,
    /// Figures by name.
    #[serde(flatten)]
    pub values: BTreeMap<String, PaperValue>,
}

/// A figure of the paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum PaperValue {
    /// Value, and its error if the paper states one.
    One(Vec<f64>),
    /// Value and error by architecture.
    Each(BTreeMap<String, Vec<f64>>),
}

/// All rows of the paper's tables.
pub fn paper() -> Vec<PaperRow> {
    #[derive(Deserialize)]
    struct File {
        row: Vec<PaperRow>,
    }
    let file: File =
        toml::from_str(include_str!("paper.toml")).expect("the file is part of the program");
    file.row
}

impl PaperRow {
    /// Value and error of a figure (`top1`, `nll`, or `top1 of wrn-28-7`).
    pub fn value(&self, measure: &str) -> Option<(f64, Option<f64>)> {
        let found = match measure.split_once(" of ") {
            None => match self.values.get(measure)? {
                PaperValue::One(value) => value,
                PaperValue::Each(_) => return None,
            },
            Some((what, member)) => match self.values.get(&format!("member_{what}"))? {
                PaperValue::Each(values) => values.get(member)?,
                PaperValue::One(_) => return None,
            },
        };
        Some((*found.first()?, found.get(1).copied()))
    }

    /// Whether the run has the row's networks, data and budget.
    pub fn setting_of(&self, run: &RunView) -> bool {
        let sorted = |members: &[String]| {
            let mut members = members.to_vec();
            members.sort();
            members
        };
        let budget: Option<Budget> = self.budget.parse().ok();
        self.data == run.about.data
            && sorted(&self.members) == sorted(&run.about.members)
            && budget.map(|budget| budget.resolve(run.sharing.dense_total)) == run.sharing.budget
    }

    /// Whether the run reproduces the row.
    pub fn row_of(&self, run: &RunView) -> bool {
        let clusters = match (&self.clusters, run.about.strategy.as_str()) {
            (Some(clusters), _) => *clusters == run.about.clusters,
            // Other initial clusters are other rows.
            (None, "no-search") => run.about.clusters == "single",
            (None, _) => true,
        };
        self.strategy.as_ref() == Some(&run.about.strategy)
            && clusters
            && self.is_tiled(&run.sharing.tiling)
            && self.setting_of(run)
    }

    /// Whether a run with this tiling can reproduce the row.
    pub fn is_tiled(&self, tiling: &str) -> bool {
        match &self.tiling {
            Some(wanted) => wanted == tiling,
            None => tiling != "stretched" && tiling != "rank-one",
        }
    }
}
