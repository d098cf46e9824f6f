//! `run.json`: what a finished run was and what it found, in figures that the files beside it can be asked about.

use serde::{Deserialize, Serialize};
use superweight_plan::SharingPlan;

use crate::recipe::Resolved;
use crate::data::EvalSplit;
use crate::run::{Event, Line};
use crate::model::Outputs;

/// Epochs of the paper's recipe on CIFAR, and of every row that names no other number: what fewer give is no row of its tables.
pub const USUAL_EPOCHS: u64 = 200;

/// One published run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Of this file.
    pub version: u32,
    /// The row of the table that it is a run of: its recipe's name.
    pub row: String,
    /// As typed, one per time the run was begun or gone on with.
    pub commands: Vec<String>,
    /// Of the program that ran.
    pub commit: String,
    /// What it ran on.
    pub device: String,
    /// Of every random choice.
    pub seed: u64,
    /// Data set.
    pub data: String,
    /// How many of its images were used for what.
    pub images: ImageCounts,
    /// Which images the settings were chosen on.
    pub chosen_on: ChosenOn,
    /// Networks.
    pub members: Vec<String>,
    /// As recipes write it.
    pub strategy: String,
    /// Trained numbers.
    pub parameters: u64,
    /// The same and what is kept free for refinement: what counts against the budget.
    pub total: u64,
    /// What there may be.
    pub budget: Option<u64>,
    /// Done.
    pub epochs: Epochs,
    /// Taken.
    pub minutes: Minutes,
    /// Which images the accuracies are about.
    pub split: EvalSplit,
    /// Top-1 in percent.
    pub top1: Accuracies,
    /// Top-5 of all members together, in percent.
    pub top5: f64,
    /// Negative log-likelihood of all members together.
    pub nll: f64,
    /// Expected calibration error of all members together, in percent.
    pub ece: f64,
}

/// Images by use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageCounts {
    /// Trained on.
    pub train: usize,
    /// Training images kept away from training.
    pub validation: usize,
    /// Of the test set.
    pub test: usize,
}

/// Which images settings were chosen on. There is no word for the test set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChosenOn {
    /// Nothing was chosen: settings are the paper's.
    Paper,
    /// On training images held out of shorter runs.
    Validation,
}

impl ChosenOn {
    /// For a table.
    pub fn words(self) -> &'static str {
        match self {
            Self::Paper => "nothing (the paper's settings)",
            Self::Validation => "validation images",
        }
    }
}

/// Epochs by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Epochs {
    /// Of the search.
    pub search: u64,
    /// Of the training after it.
    pub train: u64,
}

/// Minutes by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Minutes {
    /// Steps of the search.
    pub search: f64,
    /// Steps of training.
    pub train: f64,
    /// All from the first line of the log to the last, but for the time between two processes.
    pub wall: f64,
}

/// Of members and all together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accuracies {
    /// The mean of the members' probabilities.
    pub ensemble: f64,
    /// Each by itself, in the recipe's order; each exit, where there are several.
    pub members: Vec<f64>,
}

impl Record {
    /// Who answers.
    pub fn outputs(&self) -> Outputs {
        Outputs::of_networks(&self.members)
    }

    /// Whether it may stand in a row of as many epochs: it has seen all training images and was measured on the test set.
    pub fn is_whole(&self) -> bool {
        self.images.validation == 0 && self.split == EvalSplit::Test
    }

    /// Minutes of steps, search and training.
    pub fn gpu_minutes(&self) -> f64 {
        self.minutes.search + self.minutes.train
    }
}

impl Epochs {
    /// As the log has them.
    pub fn of(log: &[Line]) -> Self {
        let mut epochs = Self::default();
        for line in log {
            if let Event::Epoch(epoch) = &line.event {
                *(if epoch.phase == "search" { &mut epochs.search } else { &mut epochs.train }) += 1;
            }
        }
        epochs
    }
}

impl Minutes {
    /// As the log has them.
    pub fn of(log: &[Line]) -> Self {
        let mut minutes = Self::default();
        let mut last = None;
        for line in log {
            if let Event::Epoch(epoch) = &line.event {
                let search = epoch.phase == "search";
                let sum = if search { &mut minutes.search } else { &mut minutes.train };
                *sum += epoch.train.seconds / 60.0;
            }
            let goes_on = !matches!(line.event, Event::Start(_) | Event::Resume(_));
            minutes.wall +=
                last.filter(|_| goes_on).map_or(0.0, |last: f64| (line.time - last) / 60.0);
            last = Some(line.time);
        }
        minutes
    }
}

impl ImageCounts {
    /// As the log's first line has them.
    pub fn of(log: &[Line]) -> Option<Self> {
        log.iter().find_map(|line| match &line.event {
            Event::Start(start) => {
                let [train, validation, test] = start.images;
                Some(Self { train, validation, test })
            }
            _ => None,
        })
    }
}

/// Top-1 of all members together on the test set, as training itself saw it when it ended.
pub(super) fn at_the_end(log: &[Line]) -> Option<f64> {
    log.iter().rev().find_map(|line| match &line.event {
        Event::Eval(eval) => eval.test.as_ref().map(|test| test.ensemble.top1),
        _ => None,
    })
}

/// What a plan and a recipe say, in the record's words.
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

    /// Two processes, a minute apart; a search of one epoch.
    const LOG: &str = r#"{"time":100.0,"event":"start","images":[90,10,20]}
{"time":130.0,"event":"epoch","phase":"search","epoch":0,"train":{"seconds":24.0}}
{"time":160.0,"event":"epoch","phase":"train","epoch":0,"train":{"seconds":30.0}}
{"time":220.0,"event":"resume","checkpoint":2}
{"time":250.0,"event":"epoch","phase":"train","epoch":1,"train":{"seconds":30.0}}
{"time":256.0,"event":"eval","part":"test","test":{"ensemble":{"top1":61.5}}}"#;

    #[test]
    fn epochs_minutes_and_images_of_a_log() {
        let log: Vec<Line> = LOG.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(Epochs::of(&log), Epochs { search: 1, train: 2 });
        let minutes = Minutes::of(&log);
        assert_eq!((minutes.search, minutes.train), (0.4, 1.0));
        assert!(
            (minutes.wall - 1.6).abs() < 1e-12,
            "the minute between the processes does not count"
        );
        assert_eq!(
            ImageCounts::of(&log),
            Some(ImageCounts { trained: 90, held_out: 10, test: 20 })
        );
        assert_eq!(at_the_end(&log), Some(61.5));
        assert_eq!(ImageCounts::of(&log[1..]), None);
    }
}
