//! Checks a published run: every figure in its record is computed again from the files beside it.
//!
//! | figure | computed from |
//! |---|---|
//! | top-1 of members and ensemble, number of images | `predictions.gz` |
//! | epochs, minutes, images by split, and that the run finished | `log.jsonl` |
//! | members, parameters, budget, and that the budget is kept | `plan.json` |
//! | strategy, data, seed, epochs | `resolved.toml` |
//! | that times are of the same members | `anytime.json` |
//!
//! Device, commit and commands cannot be checked. NLL and ECE need the logits, which are not kept.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

use superweight_plan::{Role, SharedRoles, SharingPlan};

use super::error::ResultsError;
use super::record::{
    Accuracies, Epochs, ImageCounts, Minutes, PREDICTIONS, RECORD, Record, Settings, at_the_end,
    top1_percent,
};
use crate::data::EvalSplit;
use crate::evaluate::Classes;
use crate::infer::anytime::{PROFILE, Profile};
use crate::model::Subset;
use crate::recipe::{Recipe, Resolved};
use crate::run::{StopEvent, read_log, stop_of};

/// Largest difference in points of top-1 between the evaluation at the end of training and the
/// later one of the same checkpoint. Kernels that round differently change a few of 10,000 images;
/// another run changes more.
const SAME_TOP1: f64 = 0.5;
/// Largest difference in minutes, which are written and read as decimal numbers.
const SAME_MINUTES: f64 = 1e-6;

/// A published run whose record was checked.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Published {
    /// Folder of the published run.
    pub folder: PathBuf,
    /// The record, `run.json`.
    pub record: Record,
    /// The run's recipe with every default filled in.
    pub resolved: Resolved,
    /// Label of every image, from the predictions.
    pub labels: Vec<u16>,
    /// Top-1 in percent of every ensemble in the predictions.
    pub counted: BTreeMap<Subset, f64>,
    /// Times of every ensemble, if they were measured.
    pub anytime: Option<Profile>,
}

impl Published {
    /// Reads a folder and checks its record.
    pub fn open(folder: &Path) -> Result<Self, ResultsError> {
        let file = folder.join(RECORD);
        let text = fs::read_to_string(&file).map_err(ResultsError::io("read", &file))?;
        let record: Record =
            serde_json::from_str(&text).map_err(|error| ResultsError::file(&file, error))?;
        let check = Contradictions { folder };
        if record.version != 1 {
            return Err(ResultsError::file(
                &file,
                format!("version {}; this program reads version 1", record.version),
            ));
        }
        for (what, text) in
            [("commit", &record.commit), ("device", &record.device), ("row", &record.row)]
        {
            if text.trim().is_empty() {
                return Err(ResultsError::file(&file, format!("its {what} is empty")));
            }
        }
        if record.commands.is_empty() {
            return Err(ResultsError::file(&file, "it has no command"));
        }
        check.log(&record)?;
        let resolved = check.plan_and_recipe(&record)?;
        let classes = check.predictions(&record)?;
        let anytime = check.anytime(&record, &classes)?;
        let counted =
            classes.rows.keys().filter_map(|&it| Some((it, top1_percent(&classes, it)?))).collect();
        let (folder, labels) = (folder.to_owned(), classes.labels);
        Ok(Self { folder, record, resolved, labels, counted, anytime })
    }
}

/// All published runs below a folder, sorted by path. Runs on the same test images must have the
/// same labels. Hidden folders are drafts of unfinished publications and are skipped.
pub fn open_all(results: &Path) -> Result<Vec<Published>, ResultsError> {
    let mut found = vec![];
    let mut folders = vec![results.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(ResultsError::io("read", &folder))?;
        for entry in entries {
            let path = entry.map_err(ResultsError::io("read", &folder))?.path();
            let is_hidden =
                path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if path.is_dir() && !is_hidden {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name == RECORD) {
                found.push(folder.clone());
            }
        }
    }
    found.sort();
    let all: Vec<Published> =
        found.iter().map(|folder| Published::open(folder)).collect::<Result<_, _>>()?;
    let images = |run: &Published| {
        (run.record.data.clone(), run.record.split == EvalSplit::Test, run.labels.len())
    };
    for (i, run) in all.iter().enumerate() {
        let other = all[..i]
            .iter()
            .find(|other| images(other) == images(run) && other.labels != run.labels);
        if let Some(other) = other.filter(|_| run.record.split == EvalSplit::Test) {
            let what = format!("its labels are not those of {}", other.folder.display());
            return Err(ResultsError::file(&run.folder.join(PREDICTIONS), what));
        }
    }
    Ok(all)
}

/// Comparison of a record with the files in its folder.
struct Contradictions<'a> {
    folder: &'a Path,
}

impl Contradictions<'_> {
    /// Fails if the record and a file differ.
    fn equal<T: PartialEq + Debug>(
        &self,
        what: &str,
        recorded: &T,
        found: &T,
        file: &'static str,
    ) -> Result<(), ResultsError> {
        match recorded == found {
            true => Ok(()),
            false => Err(ResultsError::Contradiction {
                folder: self.folder.to_owned(),
                what: what.to_owned(),
                recorded: format!("{recorded:?}"),
                found: format!("{found:?}"),
                file,
            }),
        }
    }

    /// The error for two different percentages.
    fn differ(
        &self,
        what: &str,
        recorded: f64,
        found: f64,
        file: &'static str,
    ) -> Result<(), ResultsError> {
        let percent = |value: f64| (100.0 * value).round() / 100.0;
        self.equal(what, &percent(recorded), &percent(found), file)
    }

    fn log(&self, record: &Record) -> Result<(), ResultsError> {
        let name = "log.jsonl";
        let path = self.folder.join(name);
        let log = read_log(&path)?;
        self.equal("epochs", &record.epochs, &Epochs::of(&log), name)?;
        self.equal("images", &Some(record.images), &ImageCounts::of(&log), name)?;
        let (recorded, found) = (record.minutes, Minutes::of(&log));
        let near = |a: f64, b: f64| (a - b).abs() <= SAME_MINUTES;
        if !(near(recorded.search, found.search)
            && near(recorded.train, found.train)
            && near(recorded.wall, found.wall))
        {
            self.equal("minutes", &recorded, &found, name)?;
        }
        if stop_of(&log).is_none_or(|stop| stop.reason != StopEvent::FINISHED) {
            return Err(ResultsError::file(&path, "the run did not finish"));
        }
        match at_the_end(&log).filter(|_| record.split == EvalSplit::Test) {
            Some(top1) if (top1 - record.top1.ensemble).abs() > SAME_TOP1 => {
                let what = format!("top-1 of {} together", record.outputs().words());
                self.differ(&what, record.top1.ensemble, top1, name)
            }
            _ => Ok(()),
        }
    }

    fn plan_and_recipe(&self, record: &Record) -> Result<Resolved, ResultsError> {
        let path = self.folder.join("plan.json");
        let text = fs::read_to_string(&path).map_err(ResultsError::io("read", &path))?;
        let plan =
            SharingPlan::from_json(&text).map_err(|error| ResultsError::file(&path, error))?;
        let none: [&str; 0] = [];
        let mut resolved = Recipe::load(&self.folder.join("resolved.toml"), &none)?.resolve()?;
        // Resolved recipes used to contain "auto", whose meaning has changed. The plan states the
        // tiling.
        let classifier = plan.layers.iter().find(|planned| planned.layer.role == Role::Classifier);
        let classifier = classifier.map(|planned| !planned.tiles.is_empty());
        let share = SharedRoles {
            classifier: resolved.plan.share.classifier.or(classifier),
            ..resolved.plan.share
        };
        resolved.plan = resolved.plan.settled(plan.tiling, share);
        let found = Settings::of(&plan, &resolved);
        self.equal("members", &record.members, &found.members, "plan.json")?;
        self.equal("parameters", &record.parameters, &found.parameters, "plan.json")?;
        self.equal("total", &record.total, &found.total, "plan.json")?;
        self.equal("budget", &record.budget, &found.budget, "plan.json")?;
        self.equal("strategy", &record.strategy, &found.strategy, "resolved.toml")?;
        self.equal("data", &record.data, &found.data, "resolved.toml")?;
        self.equal("seed", &record.seed, &found.seed, "resolved.toml")?;
        self.equal("epochs", &record.epochs.train, &resolved.train.epochs, "resolved.toml")?;
        self.equal(
            "validation images",
            &record.images.validation,
            &resolved.data.validation,
            "resolved.toml",
        )?;
        match record.budget {
            Some(budget) if record.total > budget => Err(ResultsError::OverBudget {
                folder: self.folder.to_owned(),
                total: record.total,
                budget,
            }),
            _ => Ok(resolved),
        }
    }

    fn predictions(&self, record: &Record) -> Result<Classes, ResultsError> {
        let path = self.folder.join(PREDICTIONS);
        let classes = Classes::load(&path)?;
        let images = match record.split {
            EvalSplit::Test => record.images.test,
            EvalSplit::Validation => record.images.validation,
        };
        self.equal("number of images", &images, &classes.labels.len(), PREDICTIONS)?;
        let found = Accuracies::count(&classes, record.outputs().count())
            .ok_or_else(|| ResultsError::file(&path, "a member has no predictions"))?;
        self.equal("top-1", &record.top1, &found, PREDICTIONS)?;
        Ok(classes)
    }

    /// Times cannot be checked; the accuracies beside them show that they are of this run.
    fn anytime(&self, record: &Record, classes: &Classes) -> Result<Option<Profile>, ResultsError> {
        let name = PROFILE;
        let path = self.folder.join(name);
        if !path.exists() {
            return Ok(None);
        }
        let profile = Profile::load(&path)?;
        let (recorded, found) = (record.outputs().to_string(), profile.outputs().to_string());
        self.equal(record.outputs().words(), &recorded, &found, name)?;
        for subset in &profile.subsets {
            if let Some(top1) = top1_percent(classes, subset.members)
                && (top1 - subset.top1).abs() > SAME_TOP1
            {
                self.differ(&format!("top-1 of {}", subset.members), top1, subset.top1, name)?;
            }
        }
        Ok(Some(profile))
    }
}
