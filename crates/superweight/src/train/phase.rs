//! Phases of a run: epochs with one schedule and random numbers of their own.
//!
//! Training is the last phase of every run. Strategies with a search have a search phase before it.
//! Epochs count from 0 in each phase; checkpoints count through all phases.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::data;
use crate::recipe::Resolved;
use crate::recipe::schedule::Schedule;
use crate::rng::Draws;
use crate::run::Checkpoint;

/// Purpose of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Training that decides the clusters. Its parameters are not kept.
    Search,
    /// Training of the networks that the run keeps.
    Train,
}

impl Stage {
    /// Word in files: `search` or `train`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Train => "train",
        }
    }

    /// Random stream for the order and augmentation of images.
    pub fn stream(self) -> data::Phase {
        match self {
            Self::Search => data::Phase::Search,
            Self::Train => data::Phase::Train,
        }
    }

    /// Seed of the initial parameters: the run's seed for training, a seed derived from it for the
    /// search.
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

/// A phase: epochs with one learning-rate schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Purpose of the phase.
    pub stage: Stage,
    /// Number of epochs.
    pub epochs: u64,
    /// Learning-rate schedule.
    pub schedule: Schedule,
}

impl Phase {
    /// Phases of a run in their order.
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

/// Position of a run: `training` in `state.json`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// Current phase.
    pub phase: Stage,
    /// Complete epochs of this phase.
    pub epoch: u64,
    /// Optimizer steps of all phases so far.
    pub steps: u64,
    /// Epochs in the weight average that the checkpoint holds (`train.swa_epochs`).
    #[serde(default)]
    pub swa: u64,
    /// Seconds of the last epoch with its evaluation, for time limits.
    pub epoch_seconds: f64,
}

impl Position {
    /// Reads the position of a checkpoint. The error says why it cannot be read.
    pub fn of(checkpoint: &Checkpoint) -> Result<Self, String> {
        let position = serde_json::from_value(checkpoint.state.training.clone());
        position.map_err(|error| format!("state.json: training: {error}"))
    }

    /// Position at the start of a phase.
    pub fn start(phase: Stage) -> Self {
        Self { phase, epoch: 0, steps: 0, swa: 0, epoch_seconds: 0.0 }
    }
}
