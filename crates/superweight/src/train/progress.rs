//! Progress of a run, as typed reports to an observer such as a progress bar.

use std::path::{Path, PathBuf};

use superweight_plan::{MemberId, SharingPlan};

use super::phase::{Position, Stage};
use super::stop::Stopped;
use crate::recipe::schedule::Schedule;
use crate::run::{Evaluation, TrainFigures, WeightDecayGroup};
use crate::search::Decision;

/// Receives progress reports of a run.
pub trait Observer {
    /// Receives one report. The training thread calls it between steps and waits for it.
    fn on_progress(&mut self, progress: Progress<'_>);
}

/// Ignores all reports.
impl Observer for () {
    fn on_progress(&mut self, _: Progress<'_>) {}
}

/// A progress report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// The run is ready to train.
    Ready(Ready<'a>),
    /// A step is complete.
    Step(StepReport),
    /// A step of the pass that recomputes batch norm's statistics after weight averaging is
    /// complete.
    Recalibrated(StepReport),
    /// An epoch is complete and evaluated.
    Epoch(&'a EpochReport),
    /// Search or refinement has decided a new plan.
    Decided(&'a Decided),
    /// A checkpoint of this number is on the disk.
    Saved(u64),
    /// The run was evaluated on the test images.
    Tested(&'a Evaluation),
    /// A problem that does not stop the run.
    Warning(&'a str),
}

/// Facts about a run that is about to train.
#[derive(Clone, Debug)]
pub struct Ready<'a> {
    /// Folder of the run.
    pub folder: &'a Path,
    /// Sharing plan with its bill.
    pub plan: &'a SharingPlan,
    /// For a given plan: the epoch of refinement, if there is one. `None` for plans of the planner.
    pub given: Option<Option<u64>>,
    /// Kinds of parameters with their weight decay; every parameter is in one of them.
    pub groups: &'a [WeightDecayGroup],
    /// Number of training, validation and test images.
    pub images: [usize; 3],
    /// Name and bytes of a data set whose images stay on the disk; `None` for sets in memory.
    pub on_disk: Option<(&'a str, u64)>,
    /// Steps per epoch.
    pub steps_per_epoch: u64,
    /// Learning-rate schedule of training.
    pub schedule: &'a Schedule,
    /// Copies of each image in a step for every MIMO subnetwork.
    pub batch_repetitions: usize,
    /// Members that each step trains.
    pub members_per_step: usize,
    /// Member whose probabilities the others learn, with distillation.
    pub teacher: Option<MemberId>,
    /// Epochs of weight averaging at the end.
    pub swa_epochs: u64,
    /// Checkpoint and position that the run resumes from; `None` at the start.
    pub resumed: Option<(u64, Position)>,
}

/// Report on a complete step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// Current phase.
    pub stage: Stage,
    /// Index of the epoch, from 0.
    pub epoch: u64,
    /// Number of epochs of the phase.
    pub epochs: u64,
    /// Complete steps of the epoch.
    pub step: u64,
    /// Number of steps of the epoch.
    pub steps: u64,
}

/// Report on a complete epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochReport {
    /// Phase of the epoch.
    pub phase: Stage,
    /// Index of the epoch, from 0.
    pub epoch: u64,
    /// Number of epochs of the phase.
    pub epochs: u64,
    /// Figures of the training steps.
    pub train: TrainFigures,
    /// Epochs in the weight average that the network holds now: nonzero only in the last epoch of a
    /// run that averages.
    pub swa: u64,
    /// Figures on the validation images, where the recipe reserves some.
    pub validation: Option<Evaluation>,
    /// Figures on the test images, where an evaluation was due.
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

/// Result of [`Session::run`](super::Session::run).
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Reason for the end.
    pub stopped: Stopped,
    /// Folder of the run.
    pub folder: PathBuf,
    /// Position of the run.
    pub position: Position,
    /// Estimated seconds of the next epoch; 0 if no epoch was trained.
    pub next: f64,
    /// Position of the newest checkpoint; it differs from `position` if an epoch was abandoned.
    pub kept: Position,
    /// Number of the newest checkpoint; `None` before the first.
    pub checkpoint: Option<u64>,
    /// Last evaluation on the validation images in this process.
    pub validation: Option<Evaluation>,
    /// Evaluation on the test images at the end.
    pub test: Option<Evaluation>,
}
