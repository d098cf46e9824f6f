//! Training: from a recipe to a run folder, from a run folder on to its end.
//!
//! ```text
//! recipe ─► plan, ensemble, optimizer, images ─► Session ─► phase ─► epoch: steps ─► held-out images ─► log, curves
//!                       ▲                                               ▲                                  │
//!               newest checkpoint ◄─────────────────────────────────────┴───────────────────────────── checkpoint
//! ```
//!
//! A session is all that changes while a run goes on, and a checkpoint is all of it that cannot be had from the recipe:
//! trained numbers, momentum, running statistics, position. Rates, order of images and augmentation are functions of the
//! position; so N epochs, a resume and N more are 2N epochs, bit for bit. Checkpoints are written between epochs only: a
//! kill loses at most the epoch it falls into, or as many as the caller has put between two checkpoints: one of WRN-28-10
//! has 292 MB.
//!
//! | file | question |
//! |---|---|
//! | `setup` | recipe or folder → plan, images, ensemble: what can be wrong before anything is trained? |
//! | `branch` | a run's beginning, and another end: which settings may still be others? |
//! | `phase` | which phases does a run have, and how far is it? |
//! | `trainer` | what is a step, on any device? |
//! | `member_schedule` | which members does a step train? |
//! | `epoch` | what is an epoch? |
//! | `average` | what is the mean of epochs? |
//! | `evaluate` | how good are members and ensemble on some images? |
//! | `checkpoint` | which tensors make a checkpoint, and back? |
//! | `sharing` | when is decided what is shared, and what then? |
//! | `stop` | why does a run end early? |
//! | `progress` | what can be seen of it? |

mod swa;
#[cfg(test)]
mod swa_tests;
mod branch;
#[cfg(test)]
mod branch_tests;
mod checkpoint;
#[cfg(test)]
mod crash_tests;
mod epoch;
mod error;
mod evaluate;
mod phase;
mod progress;
mod record;
#[cfg(test)]
mod resume_tests;
mod setup;
mod sharing;
#[cfg(test)]
mod sharing_tests;
mod stop;
#[cfg(test)]
mod testing;
mod trainer;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use superweight_engine::Device;
use superweight_plan::{LayerId, SharingPlan};

pub use branch::Branch;
pub use checkpoint::{RestoreError, capture, restore, restore_parameters};
pub use error::TrainError;
pub use evaluate::Tally;
pub use phase::{Phase, Position, Stage};
pub use progress::{
    EpochReport, Observer, Outcome, Progress, Ready, StepReport,
};
pub use setup::Request;
pub use sharing::Decided;
pub use stop::{Limits, Stopped};
pub use trainer::{GradientHook, Trainer};

use self::swa::LAST_EPOCH;
use crate::model::bank::weight_name;
use crate::data::{Dataset, EvalBatches, Split, ValidationSplit};
use crate::recipe::Resolved;
use crate::run::{Checkpoint, Evaluation, Log, RunFolder, TensorBoard, Tensors, WeightDecayGroup};
use crate::search::Statistics;

/// A run in the hands of this process.
#[derive(Debug)]
pub struct Session<D: Device> {
    resolved: Resolved,
    phases: Vec<Phase>,
    data: Arc<Dataset>,
    split: ValidationSplit,
    folder: RunFolder,
    log: Log,
    board: TensorBoard,
    trainer: Trainer<D>,
    groups: Vec<WeightDecayGroup>,
    position: Position,
    /// Of the newest checkpoint; they count through all phases.
    number: Option<u64>,
    resumed: Option<(u64, Position)>,
    /// Where it was written, or where the run begins.
    kept: Position,
    /// Not shown yet.
    warnings: Vec<String>,
    /// What search and refinement have seen.
    statistics: Statistics,
    /// Of the numbers at the ends of epochs; empty unless some of those that count are done.
    mean: Tensors,
}

impl<D: Device> Session<D> {
    /// Where the run lies.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What is shared now.
    pub fn plan(&self) -> &SharingPlan {
        self.trainer.ensemble().plan()
    }

    /// Images trained on, held out, and in the test set.
    pub fn images(&self) -> [usize; 3] {
        [self.split.train.len(), self.split.validation.len(), self.data.test.len()]
    }

    /// Trains until the end, or until something stops it; then looks at the test set, if it may.
    pub fn run(
        &mut self,
        limits: &Limits,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, TrainError> {
        observer.on_progress(Progress::Ready(Ready {
            folder: self.folder.path(),
            plan: self.trainer.ensemble().plan(),
            given: self
                .resolved
                .plan
                .file
                .as_ref()
                .map(|_| self.resolved.refine.as_ref().map(|refine| refine.epoch)),
            groups: &self.groups,
            images: self.images(),
            on_disk: self.data.on_disk().map(|bytes| (&*self.data.name, bytes)),
            steps_per_epoch: self.steps_per_epoch(),
            schedule: &self.resolved.train.schedule,
            batch_repetitions: self.resolved.train.batch_repetitions,
            members_per_step: self.resolved.train.members_per_step,
            teacher: self.trainer.ensemble().teacher(),
            average: self.resolved.train.swa_epochs,
            resumed: self.resumed,
        }));
        self.show_warnings(observer);
        let (mut validation, mut test) = (None, None);
        let stopped = loop {
            let phase = self.phase();
            if let Some(stopped) = self.stops(&phase, limits) {
                break self.keep(observer)?.err().unwrap_or(stopped);
            }
            match self.next_epoch(&phase, limits, observer)? {
                // What a search has trained is forgotten: its figures are not the run's.
                Ok(report) if report.phase == Stage::Search => {}
                Ok(report) => (validation, test) = (report.validation, report.test),
                Err(stopped) => break stopped,
            }
        };
        if stopped == Stopped::Finished && test.is_none() && self.resolved.test {
            test = Some(self.test()?);
        }
        let test = test.filter(|_| stopped == Stopped::Finished);
        if let Some(test) = &test {
            self.record_test(test)?;
            observer.on_progress(Progress::Tested(test));
        }
        if stopped == Stopped::Finished {
            self.warn_of_near_zero_layers()?;
            self.show_warnings(observer);
        }
        self.record_stop(&stopped)?;
        Ok(Outcome {
            stopped,
            folder: self.folder.path().to_owned(),
            position: self.position,
            next: self.reckoned(&self.phase()),
            kept: self.kept,
            checkpoint: self.number,
            validation,
            test,
        })
    }

    /// Why the next epoch does not begin.
    fn stops(&self, phase: &Phase, limits: &Limits) -> Option<Stopped> {
        if self.position.epoch == phase.epochs {
            return Some(Stopped::Finished);
        }
        if limits.search_only && phase.stage == Stage::Train {
            return Some(Stopped::Searched);
        }
        let reached = limits.until.is_some_and(|until| self.position.epoch >= until);
        if reached && phase.stage == Stage::Train {
            return Some(Stopped::Until);
        }
        if limits.interrupted() {
            return Some(Stopped::Interrupted);
        }
        limits.out_of_time(self.reckoned(phase)).then_some(Stopped::TimeLimit)
    }

    /// Seconds that the next epoch of a phase will take, by the one before it.
    fn reckoned(&self, phase: &Phase) -> f64 {
        let averages = self.resolved.train.swa_epochs > 0 && phase.stage == Stage::Train;
        // The pass is of all members, however few a step trains.
        let pass = (LAST_EPOCH - 1.0) / self.member_schedule(phase).share(self.plan());
        let longer = if averages && self.position.epoch + 1 == phase.epochs { pass } else { 0.0 };
        (1.0 + longer) * self.position.epoch_seconds
    }

    /// A checkpoint of where the session is, unless there is one.
    fn keep(&mut self, observer: &mut dyn Observer) -> Result<Result<(), Stopped>, TrainError> {
        if self.kept == self.position {
            return Ok(Ok(()));
        }
        let captured = match self.capture()? {
            Ok(captured) => captured,
            Err(stopped) => return Ok(Err(stopped)),
        };
        let number = self.save(captured)?;
        observer.on_progress(Progress::Saved(number));
        Ok(Ok(()))
    }

    /// All that a checkpoint holds, if all of it is numbers.
    fn capture(&self) -> Result<Result<Checkpoint, Stopped>, TrainError> {
        let mut captured = capture(self.trainer.ensemble(), self.trainer.optimizer())?;
        captured.average = self.mean.clone();
        Ok(match checkpoint::not_finite(&captured) {
            Some(name) => Err(Stopped::Diverged {
                what: format!("'{name}' holds numbers that are not finite"),
            }),
            None => Ok(captured),
        })
    }

    /// A network may do without a layer and look well: nobody would know.
    fn warn_of_near_zero_layers(&mut self) -> Result<(), TrainError> {
        self.trainer.compose()?;
        let ensemble = self.trainer.ensemble();
        let name = |&id: &LayerId| weight_name(ensemble.plan(), id);
        let faded: Vec<String> = ensemble.near_zero_layers()?.iter().map(name).collect();
        if !faded.is_empty() {
            let (count, which) = (faded.len(), faded.join(", "));
            self.warn(format!(
                "{count} of {} layers have next to no weight, below a thousandth of what it began with: {which}; less of \
                 train.weight_decay, or of train.shared_weight_decay_mult where they are composed, may keep them",
                ensemble.plan().layers.len()
            ))?;
        }
        Ok(())
    }

    fn show_warnings(&mut self, observer: &mut dyn Observer) {
        for warning in std::mem::take(&mut self.warnings) {
            observer.on_progress(Progress::Warning(&warning));
        }
    }

    /// The phase the run is in.
    fn phase(&self) -> Phase {
        let current = self.phases.iter().find(|phase| phase.stage == self.position.phase);
        current.expect("the position was checked against the phases").clone()
    }

    /// An epoch, its evaluation, its line in the log; its checkpoint, where one is due.
    fn next_epoch(
        &mut self,
        phase: &Phase,
        limits: &Limits,
        observer: &mut dyn Observer,
    ) -> Result<Result<EpochReport, Stopped>, TrainError> {
        let start = Instant::now();
        let mut probe = self.gradient_probe(phase)?;
        let train = match self.train_epoch(phase, probe.as_mut(), limits, observer)? {
            Ok(figures) => figures,
            Err(stopped) => return Ok(Err(stopped)),
        };
        let swa = match self.average(phase, limits, observer)? {
            Ok(swa) => swa,
            Err(stopped) => return Ok(Err(stopped)),
        };
        let epoch = self.position.epoch;
        self.position.epoch += 1;
        self.position.steps += self.steps_per_epoch();
        let mut captured = None;
        if limits.keeps(self.position.epoch, phase.epochs) {
            captured = match self.capture()? {
                Ok(captured) => Some(captured),
                Err(stopped) => return Ok(Err(stopped)),
            };
        }
        let last = self.position.epoch == phase.epochs;
        let due = last || self.position.epoch.is_multiple_of(self.resolved.validation_every);
        let validation = if due { self.softened(Self::validate)? } else { None };
        let test_every = self.resolved.test_every * u64::from(self.resolved.test);
        let due =
            phase.stage == Stage::Train && test_every > 0 && (epoch + 1).is_multiple_of(test_every);
        let test = if due { Some(self.test()?) } else { None };
        let (stage, epochs) = (phase.stage, phase.epochs);
        let report = EpochReport { phase: stage, epoch, epochs, train, swa, validation, test };
        self.record_epoch(&report)?;
        self.position.epoch_seconds = start.elapsed().as_secs_f64();
        observer.on_progress(Progress::Epoch(&report));
        if self.decide(phase, probe, observer)? {
            captured = match self.capture()? {
                Ok(captured) => Some(captured),
                Err(stopped) => return Ok(Err(stopped)),
            };
        }
        if let Some(captured) = captured {
            let number = self.save(captured)?;
            observer.on_progress(Progress::Saved(number));
        }
        Ok(Ok(report))
    }

    /// On the images held out, where there are any.
    fn validate(&mut self) -> Result<Option<Evaluation>, TrainError> {
        if self.split.validation.is_empty() {
            return Ok(None);
        }
        let (images, batch) = (self.split.validation.clone(), self.resolved.train.rows());
        let batches = EvalBatches::new(images, batch)?;
        self.trainer.evaluate(&self.data, Split::Train, batches).map(Some)
    }

    /// On the test set.
    fn test(&mut self) -> Result<Evaluation, TrainError> {
        let batches = EvalBatches::all(&self.data, Split::Test, self.resolved.train.rows())?;
        self.trainer.evaluate(&self.data, Split::Test, batches)
    }
}
