//! What a run consists of: phases, each a number of epochs with its own schedule and its own random numbers.
//!
//! Training is the last phase of every run; a strategy that searches has another before it. Epochs count anew in each
//! phase, checkpoints count through all of them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::data;
use crate::recipe::Resolved;
use crate::recipe::schedule::Schedule;
use crate::rng::Draws;
use crate::run::Checkpoint;

/// What a phase is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Training that decides what is shared and is then forgotten.
    Search,
    /// Training that is kept.
    Train,
}

impl Stage {
    /// As files write it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Train => "train",
        }
    }

    /// Order and augmentation of its images.
    pub fn stream(self) -> data::Phase {
        match self {
            Self::Search => data::Phase::Search,
            Self::Train => data::Phase::Train,
        }
    }

    /// What its first numbers are drawn from: training from the run's seed itself, a search from another one.
    pub fn seed(self, run: u64) -> u64 {
        match self {
            Self::Search => Draws::new(&[run, self.stream() as u64]).bits(0),
            Self::Train => run,
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Epochs under one schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// What for.
    pub stage: Stage,
    /// How many.
    pub epochs: u64,
    /// Learning rates.
    pub schedule: Schedule,
}

impl Phase {
    /// The phases of a run, in their order.
    pub fn of(resolved: &Resolved) -> Vec<Self> {
        let train = &resolved.train;
        let search = resolved.search.as_ref().zip(resolved.search_schedule());
        let search = search.map(|(search, schedule)| Self {
            stage: Stage::Search,
            epochs: search.epochs,
            schedule,
        });
        let train =
            Self { stage: Stage::Train, epochs: train.epochs, schedule: train.schedule.clone() };
        search.into_iter().chain([train]).collect()
    }
}

/// How far a run is: what `state.json` keeps of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// The phase it is in.
    pub phase: Stage,
    /// Epochs of it that are done.
    pub epoch: u64,
    /// Optimizer steps of all phases.
    pub steps: u64,
    /// Epochs that are in the mean which the checkpoint holds (`train.swa_epochs`).
    #[serde(default)]
    pub swa: u64,
    /// Time of the last epoch with its evaluation, for limits; says nothing about the numbers.
    pub epoch_seconds: f64,
}

impl Position {
    /// Where a checkpoint was written, or why that cannot be said.
    pub fn of(checkpoint: &Checkpoint) -> Result<Self, String> {
        let position = serde_json::from_value(checkpoint.state.training.clone());
        position.map_err(|error| format!("state.json: training: {error}"))
    }

    /// At the beginning of a phase.
    pub fn start(phase: Stage) -> Self {
        Self { phase, epoch: 0, steps: 0, swa: 0, epoch_seconds: 0.0 }
    }
}
