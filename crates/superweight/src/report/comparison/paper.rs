//! The paper's figures, as data: `paper.toml` is the one place they are written down in.

use std::collections::BTreeMap;

use serde::Deserialize;
use superweight_plan::Budget;

use crate::report::gather::RunView;

/// A row of one of the paper's tables.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PaperRow {
    /// Which table.
    pub table: String,
    /// As the paper calls it.
    pub method: String,
    /// Data set.
    pub data: String,
    /// Networks.
    pub members: Vec<String>,
    /// As typed.
    pub budget: String,
    /// What to run for it; none for other people's methods.
    pub strategy: Option<String>,
    /// Starting clusters, where they are not the usual ones.
    pub clusters: Option<String>,
    /// The tiling of prior work, where runs of it have no other.
    pub tiling: Option<String>,
    /// Value and error by measure.
    #[serde(flatten)]
    pub values: BTreeMap<String, PaperValue>,
}

/// A number, or one per member.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum PaperValue {
    /// Value, and error where there is one.
    One(Vec<f64>),
    /// The same by architecture.
    Each(BTreeMap<String, Vec<f64>>),
}

/// Everything that the paper reports in tables.
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
    /// Value and error of a measure (`top1`, `nll`, …, or `top1 of wrn-28-7`).
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

    /// Whether it is about the same networks, images and budget.
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

    /// Whether the run is a run of it.
    pub fn row_of(&self, run: &RunView) -> bool {
        let clusters = match (&self.clusters, run.about.strategy.as_str()) {
            (Some(clusters), _) => *clusters == run.about.clusters,
            // Other starts are other rows.
            (None, "no-search") => run.about.clusters == "single",
            (None, _) => true,
        };
        self.strategy.as_ref() == Some(&run.about.strategy)
            && clusters
            && self.is_tiled(&run.sharing.tiling)
            && self.setting_of(run)
    }

    /// Whether it may be a run with this tiling.
    pub fn is_tiled(&self, tiling: &str) -> bool {
        match &self.tiling {
            Some(wanted) => wanted == tiling,
            None => tiling != "stretched" && tiling != "rank-one",
        }
    }
}
