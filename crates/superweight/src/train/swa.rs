//! Stochastic weight averaging (`train.swa_epochs`): the run keeps the mean of the parameters after
//! each of the last N epochs (Izmailov et al., Averaging Weights Leads to Wider Optima and Better
//! Generalization, 2018).
//!
//! ```text
//! each of the last N epochs: parameters ─► mean ─► swa.safetensors of its checkpoint
//! after the last: mean ─► network ─► batch norm's statistics from all images ─► evaluation
//! ```
//!
//! Templates and coefficients are averaged, not the composed weights, which would not fit the plan.
//! Running statistics belong to the weights that produced them, so they are recomputed for the
//! mean, with forward passes only. Training on with learning rate 0 would cost backward passes,
//! give statistics of only the last twenty batches, and change the momentum.
//!
//! Before the end, a checkpoint holds the network being trained, and figures of a stopped run are
//! of that network.

use superweight_engine::Device;

use super::checkpoint::{parameters, set_parameters};
use super::{
    Limits, Observer, Phase, Position, Progress, RestoreError, Session, Stage, StepReport, Stopped,
    UntilStopped,
};
use crate::data::Batches;
use crate::run::{Checkpoint, Tensor, Tensors, Values};

/// Estimated time of the last epoch over that of others. A forward pass took 0.46 of the time of an
/// epoch's steps (WRN-10-2, batches of 50, two cores).
pub(super) const LAST_EPOCH: f64 = 1.6;

/// Number of epochs in the average after `done` epochs of a phase, if the last `average` epochs of
/// training count.
pub(super) fn counted(phase: &Phase, done: u64, average: u64) -> u64 {
    match phase.stage {
        Stage::Search => 0,
        Stage::Train => (done + average).saturating_sub(phase.epochs),
    }
}

impl<D: Device> Session<D> {
    /// Adds the parameters after an epoch to the average. After the last epoch the average becomes
    /// the network. Returns the number of averaged epochs in the network, 0 before the last epoch.
    pub(super) fn average(
        &mut self,
        phase: &Phase,
        limits: &Limits,
        observer: &mut dyn Observer,
    ) -> UntilStopped<u64> {
        let done = self.position.epoch + 1;
        let count = counted(phase, done, self.resolved.train.swa_epochs);
        if count == 0 {
            return Ok(Ok(0));
        }
        let [bank, members] = parameters(self.trainer.ensemble())?;
        let mut mean = Tensors::default();
        for (name, now) in bank.iter().chain(members.iter()) {
            mean.insert(name, extend_mean(self.mean.get(name), now, count));
        }
        if done < phase.epochs {
            (self.mean, self.position.swa) = (mean, count);
            return Ok(Ok(0));
        }
        set_parameters(self.trainer.parts_mut().0, &mean, &mean).map_err(|error| match error {
            RestoreError::Engine(error) => error,
            RestoreError::Tensor(error) => unreachable!("these tensors were just read: {error}"),
        })?;
        if let Err(stopped) = self.recalibrate(phase, limits, observer)? {
            return Ok(Err(stopped));
        }
        (self.mean, self.position.swa) = (Tensors::default(), 0);
        Ok(Ok(count))
    }

    /// Recomputes batch norm's running statistics for the current parameters, as means over all
    /// training images.
    pub(super) fn recalibrate(
        &mut self,
        phase: &Phase,
        limits: &Limits,
        observer: &mut dyn Observer,
    ) -> UntilStopped<()> {
        let mut batches = self.train_batches(phase)?;
        let mut draws = batches.buffer();
        let (stage, epochs, steps) = (phase.stage, phase.epochs, self.steps_per_epoch());
        self.trainer.compose()?;
        for step in 1..=steps {
            batches.fill(epochs * steps + step - 1, &mut draws)?;
            self.trainer.recalibrate_step(&draws, step as u32)?;
            let report = StepReport { stage, epoch: self.position.epoch, epochs, step, steps };
            observer.on_progress(Progress::Recalibrated(report));
            if limits.interrupted() {
                return Ok(Err(Stopped::Interrupted));
            }
        }
        self.trainer.ensemble().memory().finish()?;
        Ok(Ok(()))
    }
}

/// Average of a run that resumes at a position of a phase. The error says why the checkpoint does
/// not fit.
pub(super) fn restored(
    phase: &Phase,
    position: &Position,
    average: u64,
    checkpoint: &Checkpoint,
) -> Result<Tensors, String> {
    let count = match position.epoch {
        done if done == phase.epochs => 0,
        done => counted(phase, done, average),
    };
    if position.swa != count {
        let swa = position.swa;
        return Err(format!("state.json: swa is {swa}, the recipe gives {count}"));
    }
    if count > 0 {
        for (name, now) in checkpoint.bank.iter().chain(checkpoint.members.iter()) {
            let there = checkpoint.average.expect::<f32>(name, now.shape());
            there.map_err(|error| format!("swa.safetensors: {error}"))?;
        }
    }
    Ok(checkpoint.average.clone())
}

/// Mean of `count` tensors: `now` is the last one, `mean` is the mean of those before it.
fn extend_mean(mean: Option<&Tensor>, now: &Tensor, count: u64) -> Tensor {
    let Some(mean) = mean else { return now.clone() };
    let (Values::F32(means), Values::F32(values)) = (mean.values(), now.values()) else {
        unreachable!("parameters are f32");
    };
    let share = 1.0 / count as f32;
    let values = means.iter().zip(values).map(|(mean, now)| mean + (now - mean) * share).collect();
    Tensor::new(now.shape(), values)
}
