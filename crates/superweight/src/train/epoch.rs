//! One epoch: every training image once, less the tail, in the epoch's order, with the epoch's rates.
//!
//! ```text
//! images ─► compose ─► members forward, backward ─► compose backward ─► update ─► sums of the members' metrics
//! ```

use std::time::Instant;

use superweight_engine::Device;
use superweight_plan::MemberId;

use super::stop::{STEPS_BETWEEN_LOOKS, Stopped, diverged};
use super::{Limits, Observer, Phase, Progress, Session, StepReport, TrainError, TrainFigures};
use crate::data::{Prefetch, TrainBatches};
use crate::ensemble::ParameterKind;
use crate::schedule::Length;

/// Batches made ahead of the one that is trained on.
const AHEAD: usize = 2;

/// What a member's losses and hits add up to.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    loss: f64,
    top1: f64,
}

impl<D: Device> Session<D> {
    /// Steps of an epoch of any phase.
    pub fn steps_per_epoch(&self) -> u64 {
        (self.split.train.len() / self.resolved.train.batch) as u64
    }

    /// Trains the next epoch of a phase. Where it stops early, the numbers are between two checkpoints.
    pub(super) fn train_epoch(
        &mut self,
        phase: &Phase,
        limits: &Limits,
        observer: &mut dyn Observer,
    ) -> Result<Result<TrainFigures, Stopped>, TrainError> {
        let (epoch, steps, batch) = (self.position.epoch, self.steps_per_epoch(), self.resolved.train.batch);
        let rates = phase.schedule.rates(Length { epochs: phase.epochs, steps_per_epoch: steps }, epoch);
        let mut images = self.feed(phase, epoch)?;
        let mut sums = vec![Sums::default(); self.ensemble.members()];
        let start = Instant::now();
        for (step, rate) in (1..).zip(&rates) {
            let batch = images.next()?.expect("as many batches as steps");
            self.ensemble.set_batch(&batch.images, &batch.labels)?;
            self.ensemble.train_step(&mut self.optimizer, &[*rate; ParameterKind::ALL.len()])?;
            for (m, sums) in sums.iter_mut().enumerate() {
                let metrics = self.ensemble.metrics(MemberId(m))?;
                sums.loss += f64::from(metrics.loss);
                sums.top1 += f64::from(metrics.top1);
            }
            let look = step % STEPS_BETWEEN_LOOKS == 0;
            if look && let Some(m) = sums.iter().position(|sums| !sums.loss.is_finite()) {
                let what = format!("the loss of member {m} is no longer finite at step {step} of {steps}");
                return Ok(Err(Stopped::Diverged { what }));
            }
            let (stage, epochs) = (phase.stage, phase.epochs);
            observer.see(Progress::Step(StepReport { stage, epoch, epochs, step, steps }));
            if limits.interrupted() {
                return Ok(Err(Stopped::Interrupted));
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let trained = (steps * batch as u64) as f64;
        let losses: Vec<f64> = sums.iter().map(|sums| sums.loss / steps as f64).collect();
        if let Some(m) = losses.iter().position(|&loss| diverged(loss, self.data.classes.len())) {
            let what = format!("the mean loss of member {m} was {:.4} in this epoch", losses[m]);
            return Ok(Err(Stopped::Diverged { what }));
        }
        Ok(Ok(TrainFigures {
            loss: losses.iter().sum::<f64>() / losses.len() as f64,
            top1: sums.iter().map(|sums| 100.0 * sums.top1 / trained).collect(),
            losses,
            rate: rates.last().copied().unwrap_or(0.0).into(),
            seconds,
            images_per_s: trained / seconds,
        }))
    }

    /// The batches of an epoch, made on a thread.
    fn feed(&self, phase: &Phase, epoch: u64) -> Result<Prefetch, TrainError> {
        let batches = TrainBatches::new(
            self.data.clone(),
            self.split.train.clone(),
            self.resolved.train.batch,
            self.resolved.data.augment,
            self.resolved.seed,
            phase.stage.stream(),
        )?;
        let steps = batches.steps_per_epoch();
        Ok(Prefetch::start(batches, epoch * steps..(epoch + 1) * steps, AHEAD))
    }
}
