//! The training loop: epochs until the end of the run, or until a limit stops it.

use std::time::Instant;

use superweight_engine::Device;
use superweight_plan::LayerId;

use super::checkpoint::{self, capture};
use super::error::TrainError;
use super::phase::{Phase, Stage};
use super::progress::{EpochReport, Observer, Outcome, Progress, Ready};
use super::session::Session;
use super::stop::{Limits, Stopped, UntilStopped};
use super::swa::LAST_EPOCH;
use crate::data::{EvalBatches, Split};
use crate::model::bank::weight_name;
use crate::run::{Checkpoint, Evaluation};

impl<D: Device> Session<D> {
    /// Trains to the end of the run, or until a limit stops it. At the end it evaluates on the test
    /// images, unless the recipe forbids that (`eval.test = false`).
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
            swa_epochs: self.resolved.train.swa_epochs,
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
                // Training starts from new parameters, so figures of the search are not those of
                // the run.
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
            next: self.estimated_seconds(&self.phase()),
            kept: self.kept,
            checkpoint: self.number,
            validation,
            test,
        })
    }

    /// Reason not to start the next epoch.
    pub(super) fn stops(&self, phase: &Phase, limits: &Limits) -> Option<Stopped> {
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
        limits.out_of_time(self.estimated_seconds(phase)).then_some(Stopped::TimeLimit)
    }

    /// Estimated seconds of the next epoch, from the epoch before it.
    fn estimated_seconds(&self, phase: &Phase) -> f64 {
        let averages = self.resolved.train.swa_epochs > 0 && phase.stage == Stage::Train;
        // Recomputing batch norm's statistics runs all members, even where a step trains only some.
        let pass = (LAST_EPOCH - 1.0) / self.member_schedule(phase).work_share(self.plan());
        let longer = if averages && self.position.epoch + 1 == phase.epochs { pass } else { 0.0 };
        (1.0 + longer) * self.position.epoch_seconds
    }

    /// Writes a checkpoint of the current position, unless there is one.
    fn keep(&mut self, observer: &mut dyn Observer) -> UntilStopped<()> {
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

    /// Contents of a checkpoint, unless a value is not finite.
    pub(super) fn capture(&self) -> UntilStopped<Checkpoint> {
        let mut captured = capture(self.trainer.ensemble(), self.trainer.optimizer())?;
        captured.average = self.mean.clone();
        Ok(match checkpoint::not_finite(&captured) {
            Some(name) => Err(Stopped::Diverged {
                what: format!("'{name}' contains values that are not finite"),
            }),
            None => Ok(captured),
        })
    }

    /// Warns of layers whose weights are nearly zero. Accuracy alone does not show that a network
    /// skips a layer.
    fn warn_of_near_zero_layers(&mut self) -> Result<(), TrainError> {
        self.trainer.compose()?;
        let ensemble = self.trainer.ensemble();
        let name = |&id: &LayerId| weight_name(ensemble.plan(), id);
        let near_zero: Vec<String> = ensemble.near_zero_layers()?.iter().map(name).collect();
        if !near_zero.is_empty() {
            let (count, which) = (near_zero.len(), near_zero.join(", "));
            self.warn(format!(
                "{count} of {} layers have weights near zero, below a thousandth of their initial size: {which}; \
                 a smaller train.weight_decay may keep them, or for composed layers a smaller \
                 train.shared_weight_decay_mult",
                ensemble.plan().layers.len()
            ))?;
        }
        Ok(())
    }

    pub(super) fn show_warnings(&mut self, observer: &mut dyn Observer) {
        for warning in std::mem::take(&mut self.warnings) {
            observer.on_progress(Progress::Warning(&warning));
        }
    }

    /// Current phase.
    pub(super) fn phase(&self) -> Phase {
        let current = self.phases.iter().find(|phase| phase.stage == self.position.phase);
        current.expect("the position was checked against the phases").clone()
    }

    /// Trains one epoch, evaluates it, logs it, and writes a checkpoint where one is due.
    fn next_epoch(
        &mut self,
        phase: &Phase,
        limits: &Limits,
        observer: &mut dyn Observer,
    ) -> UntilStopped<EpochReport> {
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

    /// Evaluates on the validation images, where the recipe reserves some.
    fn validate(&mut self) -> Result<Option<Evaluation>, TrainError> {
        if self.split.validation.is_empty() {
            return Ok(None);
        }
        let (images, batch) = (self.split.validation.clone(), self.resolved.train.rows());
        let batches = EvalBatches::new(images, batch)?;
        self.trainer.evaluate(&self.data, Split::Train, batches).map(Some)
    }

    /// Evaluates on the test images.
    fn test(&mut self) -> Result<Evaluation, TrainError> {
        let batches = EvalBatches::all(&self.data, Split::Test, self.resolved.train.rows())?;
        self.trainer.evaluate(&self.data, Split::Test, batches)
    }
}
