//! One epoch: every training image once, except for an incomplete last batch, in the order and with
//! the learning rates of the epoch.
//!
//! The host prepares the table of images for each step, in some microseconds. The device does the
//! rest. The host waits for it every fifty steps, to check that the loss is finite.

use std::time::Instant;

use superweight_engine::{Device, Metrics};

use super::sharing::GradientProbe;
use super::stop::{STEPS_BETWEEN_CHECKS, Stopped, UntilStopped, diverged};
use super::trainer::GradientHook;
use super::{Limits, Observer, Phase, Progress, Session, StepReport, TrainError};
use crate::data::{Batches, TrainBatches};
use crate::model::ensemble::by_size;
use crate::model::member_schedule::MemberSchedule;
use crate::recipe::Resolved;
use crate::recipe::schedule::Length;
use crate::run::TrainFigures;

impl<D: Device> Session<D> {
    /// Steps per epoch, the same in all phases.
    pub fn steps_per_epoch(&self) -> u64 {
        (self.split.train.len() / self.resolved.train.batch_size) as u64
    }

    /// Training batches of a phase.
    pub(super) fn train_batches(&self, phase: &Phase) -> Result<TrainBatches, TrainError> {
        Ok(TrainBatches::new(
            self.data.clone(),
            self.split.train.clone(),
            self.resolved.train.batch_size,
            self.resolved.data.augment,
            self.resolved.seed,
            phase.stage.stream(),
        )?
        .for_heads(self.trainer.ensemble().heads(), self.resolved.train.batch_repetitions))
    }

    /// Schedule of the members that each step of a phase trains.
    pub(super) fn member_schedule(&self, phase: &Phase) -> MemberSchedule {
        let Resolved { train, seed, .. } = &self.resolved;
        MemberSchedule::new(
            by_size(self.plan()),
            train.members_per_step,
            *seed,
            phase.stage.stream(),
        )
    }

    /// Trains the next epoch of a phase. After an early stop the parameters are those of an
    /// incomplete epoch.
    pub(super) fn train_epoch(
        &mut self,
        phase: &Phase,
        mut probe: Option<&mut GradientProbe<D>>,
        limits: &Limits,
        observer: &mut dyn Observer,
    ) -> UntilStopped<TrainFigures> {
        let (epoch, steps, batch) =
            (self.position.epoch, self.steps_per_epoch(), self.resolved.train.batch_size);
        let lrs =
            phase.schedule.table(Length { epochs: phase.epochs, steps_per_epoch: steps }, epoch);
        let mut batches = self.train_batches(phase)?;
        let mut draws = batches.buffer();
        let member_schedule = self.member_schedule(phase);
        let start = Instant::now();
        self.trainer.begin_epoch()?;
        for (step, lr) in (1..).zip(&lrs) {
            batches.fill(epoch * steps + step - 1, &mut draws)?;
            let hook = probe.as_deref_mut().filter(|probe| step >= probe.from);
            let members = member_schedule.members_of_step(epoch, step - 1);
            self.trainer.train_step(
                &members,
                &draws,
                *lr,
                hook.map(|probe| probe as &mut dyn GradientHook<D>),
            )?;
            if step % STEPS_BETWEEN_CHECKS == 0
                && let Some(m) =
                    self.trainer.metrics()?.iter().position(|sums| !sums.loss.is_finite())
            {
                let who = self.trainer.ensemble().outputs().word();
                let what =
                    format!("the loss of {who} {m} is no longer finite at step {step} of {steps}");
                return Ok(Err(Stopped::Diverged { what }));
            }
            let (stage, epochs) = (phase.stage, phase.epochs);
            observer.on_progress(Progress::Step(StepReport { stage, epoch, epochs, step, steps }));
            if limits.interrupted() {
                return Ok(Err(Stopped::Interrupted));
            }
        }
        let sums = self.trainer.metrics()?;
        let seconds = start.elapsed().as_secs_f64();
        let trained = (steps * batch as u64) as f64;
        let steps_of = self.trainer.steps();
        let loss = |(sums, &steps): (&Metrics, &u64)| f64::from(sums.loss) / steps as f64;
        let losses: Vec<f64> = sums.iter().zip(&steps_of).map(loss).collect();
        let ensemble = self.trainer.ensemble();
        if let Some(m) = losses.iter().position(|&loss| diverged(loss, self.data.classes.len())) {
            let who = ensemble.outputs().word();
            let what = format!("the mean loss of {who} {m} was {:.4} in this epoch", losses[m]);
            return Ok(Err(Stopped::Diverged { what }));
        }
        let zero_channels = |member| Ok(100.0 * ensemble.zero_channels(member)?);
        let zero_channels = ensemble
            .member_ids()
            .into_iter()
            .map(zero_channels)
            .collect::<Result<_, TrainError>>()?;
        let top1 = |sums: &Metrics| 100.0 * f64::from(sums.top1) / f64::from(sums.rows);
        Ok(Ok(TrainFigures {
            loss: losses.iter().sum::<f64>() / losses.len() as f64,
            top1: sums.iter().map(top1).collect(),
            losses,
            zero_channels,
            lr: lrs.last().copied().unwrap_or(0.0).into(),
            seconds,
            images_per_s: trained / seconds,
        }))
    }
}
