//! `run.json`: what a finished run was, and its figures, which
//! [`Published::open`](super::Published::open) checks.

use serde::{Deserialize, Serialize};
use superweight_plan::SharingPlan;

use crate::data::EvalSplit;
use crate::evaluate::Classes;
use crate::model::{OutputId, Outputs, Subset};
use crate::recipe::Resolved;
use crate::run::{Event, Line, start_of};

/// Name of a record's file.
pub(super) const RECORD: &str = "run.json";
/// Name of the predictions' file beside a record.
pub(super) const PREDICTIONS: &str = "predictions.gz";

/// Epochs of the paper's recipe on CIFAR, and of every row that states no other number. Runs with
/// fewer epochs are not in its tables.
pub const USUAL_EPOCHS: u64 = 200;

/// A published run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Version of the file's format.
    pub version: u32,
    /// Row of the table that the run belongs to: the name of its recipe.
    pub row: String,
    /// Commands that started or resumed the run.
    pub commands: Vec<String>,
    /// Commit of the program that trained the run.
    pub commit: String,
    /// Device of the last command.
    pub device: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// Name of the data set.
    pub data: String,
    /// Number of images by split.
    pub images: ImageCounts,
    /// Images on which the settings were chosen.
    pub chosen_on: ChosenOn,
    /// Architectures of the members.
    pub members: Vec<String>,
    /// Strategy in the recipe's word.
    pub strategy: String,
    /// Number of trainable parameters.
    pub parameters: u64,
    /// Number of parameters that count against the budget: the trainable ones and the reserve for
    /// refinement.
    pub total: u64,
    /// Parameter budget.
    pub budget: Option<u64>,
    /// Number of epochs by phase.
    pub epochs: Epochs,
    /// Minutes by phase.
    pub minutes: Minutes,
    /// Split on which the accuracies are measured.
    pub split: EvalSplit,
    /// Top-1 accuracies of the ensemble and of each output, in percent.
    pub top1: Accuracies,
    /// Top-5 accuracy of all outputs together, in percent.
    pub top5: f64,
    /// Negative log-likelihood of all outputs together.
    pub nll: f64,
    /// Expected calibration error of all outputs together, in percent.
    pub ece: f64,
}

/// Number of images by split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageCounts {
    /// Training images, without those for validation.
    pub train: usize,
    /// Training images that are kept for validation.
    pub validation: usize,
    /// Test images.
    pub test: usize,
}

/// Images on which settings were chosen. There is deliberately no variant for the test set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChosenOn {
    /// No images: all settings are the paper's.
    Paper,
    /// Validation images, in other runs.
    Validation,
}

impl ChosenOn {
    /// Description for a table.
    pub fn words(self) -> &'static str {
        match self {
            Self::Paper => "nothing (the paper's settings)",
            Self::Validation => "validation images",
        }
    }
}

/// Number of epochs by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Epochs {
    /// Epochs of the search.
    pub search: u64,
    /// Epochs of training after the search.
    pub train: u64,
}

/// Minutes by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Minutes {
    /// Minutes of the search's steps.
    pub search: f64,
    /// Minutes of training's steps.
    pub train: f64,
    /// Minutes from the first line of the log to the last, without the time between two processes.
    pub wall: f64,
}

/// Accuracies of members and ensemble.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accuracies {
    /// Accuracy of the mean of all outputs' probabilities.
    pub ensemble: f64,
    /// Accuracy of each member in the recipe's order, or of each exit.
    pub members: Vec<f64>,
}

impl Accuracies {
    /// Counts the correct predictions of every output and of all together; none if a row is
    /// missing.
    pub(super) fn count(classes: &Classes, outputs: usize) -> Option<Self> {
        let percent = |subset| top1_percent(classes, subset);
        let each = (0..outputs).map(|output| percent(Subset::one(OutputId(output))));
        Some(Self {
            ensemble: percent(Subset::all(outputs))?,
            members: each.collect::<Option<_>>()?,
        })
    }
}

/// Top-1 accuracy of a subset in percent, counted; none if the predictions have no row for it.
pub(super) fn top1_percent(classes: &Classes, subset: Subset) -> Option<f64> {
    let pairs = classes.rows.get(&subset)?.iter().zip(&classes.labels);
    let correct = pairs.filter(|(class, label)| class == label).count();
    // Multiplied before the division, 79 of 100 are 79 and not 79.00000000000001.
    Some(100.0 * correct as f64 / classes.labels.len() as f64)
}

impl Record {
    /// The members, or the exits of the only one.
    pub fn outputs(&self) -> Outputs {
        Outputs::of_networks(&self.members)
    }

    /// Whether the run may be in the table: it was trained on all training images and evaluated on
    /// the test set.
    pub fn is_whole(&self) -> bool {
        self.images.validation == 0 && self.split == EvalSplit::Test
    }

    /// Minutes of steps, in search and training.
    pub fn gpu_minutes(&self) -> f64 {
        self.minutes.search + self.minutes.train
    }
}

impl Epochs {
    /// Epochs in a log.
    pub fn of(log: &[Line]) -> Self {
        let mut epochs = Self::default();
        for line in log {
            if let Event::Epoch(epoch) = &line.event {
                *(if epoch.phase == "search" { &mut epochs.search } else { &mut epochs.train }) +=
                    1;
            }
        }
        epochs
    }
}

impl Minutes {
    /// Minutes in a log.
    pub fn of(log: &[Line]) -> Self {
        let mut minutes = Self::default();
        let mut last = None;
        for line in log {
            if let Event::Epoch(epoch) = &line.event {
                let search = epoch.phase == "search";
                let sum = if search { &mut minutes.search } else { &mut minutes.train };
                *sum += epoch.train.seconds / 60.0;
            }
            let same_process = !matches!(line.event, Event::Start(_) | Event::Resume(_));
            minutes.wall +=
                last.filter(|_| same_process).map_or(0.0, |last: f64| (line.time - last) / 60.0);
            last = Some(line.time);
        }
        minutes
    }
}

impl ImageCounts {
    /// Number of images, from the log's first event; none if it is missing.
    pub fn of(log: &[Line]) -> Option<Self> {
        let [train, validation, test] = start_of(log)?.images;
        Some(Self { train, validation, test })
    }
}

/// Test accuracy of all outputs together at the end of training.
pub(super) fn at_the_end(log: &[Line]) -> Option<f64> {
    log.iter().rev().find_map(|line| match &line.event {
        Event::Eval(eval) => eval.test.as_ref().map(|test| test.ensemble.top1),
        _ => None,
    })
}

/// The part of a record that follows from plan and recipe.
pub(super) struct Settings {
    pub members: Vec<String>,
    pub strategy: String,
    pub data: String,
    pub seed: u64,
    pub parameters: u64,
    pub total: u64,
    pub budget: Option<u64>,
}

impl Settings {
    pub fn of(plan: &SharingPlan, resolved: &Resolved) -> Self {
        Self {
            members: plan.members.iter().map(|member| member.architecture.to_string()).collect(),
            strategy: resolved.strategy.word().to_owned(),
            data: resolved.data.name.clone(),
            seed: resolved.seed,
            parameters: plan.bill.trained(),
            total: plan.bill.total(),
            budget: plan.budget,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = r#""version":"0","name":"a","strategy":"swn","seed":0,"members":[],"budget":null,"data":"d",
        "bill":{"templates":0,"coefficients":0,"reserved":0,"batch_norm":0,"classifier":0,"dense":0}"#;

    fn epoch(time: f64, phase: &str, epoch: u64, seconds: f64) -> String {
        format!(
            r#"{{"time":{time},"event":"epoch","phase":"{phase}","epoch":{epoch},"epochs":2,"loss":null,
            "train":{{"loss":null,"losses":[],"top1":[],"lr":null,"seconds":{seconds},"images_per_s":null}}}}"#
        )
    }

    /// Two processes a minute apart, with a search of one epoch.
    #[test]
    fn epochs_minutes_and_images_come_from_the_log() {
        let scores = r#"{"top1":61.5,"top5":null,"nll":null}"#;
        let log = [
            format!(r#"{{"time":100.0,"event":"start","images":[90,10,20],{START}}}"#),
            epoch(130.0, "search", 0, 24.0),
            epoch(160.0, "train", 0, 30.0),
            r#"{"time":220.0,"event":"resume","checkpoint":2,"phase":"train","epoch":1}"#
                .to_owned(),
            epoch(250.0, "train", 1, 30.0),
            format!(
                r#"{{"time":256.0,"event":"eval","split":"test",
                "test":{{"images":20,"ensemble":{scores},"members":[]}}}}"#
            ),
        ];
        let log: Vec<Line> = log.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(Epochs::of(&log), Epochs { search: 1, train: 2 });
        let minutes = Minutes::of(&log);
        assert_eq!((minutes.search, minutes.train), (0.4, 1.0));
        assert!((minutes.wall - 1.6).abs() < 1e-12, "without the minute between the processes");
        let images = ImageCounts { train: 90, validation: 10, test: 20 };
        assert_eq!(ImageCounts::of(&log), Some(images));
        assert_eq!(at_the_end(&log), Some(61.5));
        assert_eq!(ImageCounts::of(&log[1..]), None);
    }
}
