//! What a run tells while it goes on: facts with types. Whoever watches draws bars or prints lines.

use std::path::{Path, PathBuf};

use superweight_plan::{MemberId, SharingPlan};

use super::phase::{Position, Stage};
use super::stop::Stopped;
use crate::recipe::schedule::Schedule;
use crate::run::{Evaluation, TrainFigures, WeightDecayGroup};
use crate::search::Decision;

/// Somebody who watches a run.
pub trait Observer {
    /// Called from the training thread, between steps: what takes long here takes longer there.
    fn on_progress(&mut self, progress: Progress<'_>);
}

/// Nobody.
impl Observer for () {
    fn on_progress(&mut self, _: Progress<'_>) {}
}

/// What there is to see.
#[derive(Clone, Debug)]
pub enum Progress<'a> {
    /// Everything is ready.
    Ready(Ready<'a>),
    /// A step is done.
    Step(StepReport),
    /// A step of the pass after the last epoch is done, in which batch norm sees every image again (`train.swa_epochs`).
    Recalibrated(StepReport),
    /// An epoch is done, and evaluated.
    Epoch(&'a EpochReport),
    /// What is shared was decided anew.
    Decided(&'a Decided),
    /// A checkpoint is on the disk.
    Saved(u64),
    /// The test set was looked at.
    Tested(&'a Evaluation),
    /// Something to know that does not stop the run.
    Warning(&'a str),
}

/// What is about to be trained.
#[derive(Clone, Debug)]
pub struct Ready<'a> {
    /// The run.
    pub folder: &'a Path,
    /// What is shared, and what it costs.
    pub plan: &'a SharingPlan,
    /// Where the plan was given: after how many epochs its coefficients are refined, if they are.
    pub given: Option<Option<u64>>,
    /// Every trained number is in one of them.
    pub groups: &'a [WeightDecayGroup],
    /// Images trained on, held out, and in the test set.
    pub images: [usize; 3],
    /// The set and its bytes of images that are read from its files as they are drawn, where they are not in memory.
    pub on_disk: Option<(&'a str, u64)>,
    /// Steps of an epoch.
    pub steps_per_epoch: u64,
    /// Learning rates of training.
    pub schedule: &'a Schedule,
    /// How often an image comes in a step for every head, where members have several.
    pub batch_repetitions: usize,
    /// Members that a step trains.
    pub members_per_step: usize,
    /// From whom the others learn, if they do.
    pub teacher: Option<MemberId>,
    /// How many of the last epochs are averaged.
    pub average: u64,
    /// Where it goes on, and from which checkpoint; none at the beginning.
    pub resumed: Option<(u64, Position)>,
}

/// A step that is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// Of this phase,
    pub stage: Stage,
    /// this epoch, from 0,
    pub epoch: u64,
    /// of so many,
    pub epochs: u64,
    /// so many steps are done
    pub step: u64,
    /// of so many.
    pub steps: u64,
}

/// An epoch that is done.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochReport {
    /// Of this phase.
    pub phase: Stage,
    /// From 0.
    pub epoch: u64,
    /// Of so many.
    pub epochs: u64,
    /// What training itself saw.
    pub train: TrainFigures,
    /// Of how many epochs' ends the network is the mean now: in the last epoch of a run that averages, else 0.
    pub swa: u64,
    /// On the images held out, where there are any.
    pub validation: Option<Evaluation>,
    /// On the test set, where it was asked for.
    pub test: Option<Evaluation>,
}

/// A decision of search or refinement.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// Search decides clusters, training decides coefficient groups.
    pub stage: Stage,
    /// Plan before the decision.
    pub before: SharingPlan,
    /// Plan after it, and the threshold that gave it.
    pub decision: Decision,
    /// Whether all parameters are reinitialised.
    pub reinit: bool,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Why.
    pub stopped: Stopped,
    /// The run.
    pub folder: PathBuf,
    /// How far it is.
    pub position: Position,
    /// Seconds that the next epoch is reckoned to take; 0 where none was trained.
    pub next: f64,
    /// How far it was at its newest checkpoint; the same unless an epoch was given up.
    pub kept: Position,
    /// The newest checkpoint; none where it ended before the first.
    pub checkpoint: Option<u64>,
    /// The last look at the held-out images, by this process.
    pub validation: Option<Evaluation>,
    /// The test set, at the end.
    pub test: Option<Evaluation>,
}
