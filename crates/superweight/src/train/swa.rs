//! The mean of what the last epochs of training ended with (`train.swa_epochs`), instead of what the last step left
//! (stochastic weight averaging: Izmailov et al., Averaging Weights Leads to Wider Optima and Better Generalization, 2018).
//!
//! ```text
//! each of the last N epochs: numbers ─► mean ─► swa.safetensors of its checkpoint
//! after the last:            mean ─► the network ─► batch norm sees every training image again ─► evaluation, checkpoint
//! ```
//!
//! Templates and coefficients are averaged, not the weights they make, which would be numbers of their own. Running
//! statistics are of the weights that made them, so the mean's are taken anew, forward only. Not by going on at rate 0:
//! backward passes for nothing, statistics of the last twenty batches, and momentum of steps that were none.
//!
//! Until the end a checkpoint's network is the one being trained: what is said of a run that has stopped before is of that.

use superweight_engine::Device;

use super::checkpoint::{parameters, set_parameters};
use super::{
    Limits, Observer, Phase, Position, Progress, RestoreError, Session, Stage, StepReport, Stopped,
    UntilStopped,
};
use crate::data::Batches;
use crate::run::{Checkpoint, Tensor, Tensors, Values};

/// How much longer than an epoch the last one is reckoned to take. A pass forward took 0.46 of an epoch's steps (WRN-10-2,
/// batches of 50, two cores).
pub(super) const LAST_EPOCH: f64 = 1.6;

/// How many epochs are in the mean after `done` of a phase, where the last `average` of training count.
pub(super) fn counted(phase: &Phase, done: u64, average: u64) -> u64 {
    match phase.stage {
        Stage::Search => 0,
        Stage::Train => (done + average).saturating_sub(phase.epochs),
    }
}

impl<D: Device> Session<D> {
    /// After the steps of an epoch: the mean counts it in; after the last one the mean is the network. Says how many epochs that
    /// network is the mean of, 0 while it is none.
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
            mean.insert(name, toward(self.mean.get(name), now, count));
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

    /// Batch norm's running statistics, of the network as it is: means over an epoch's images.
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

/// The mean of a run that goes on at a position of a phase, or why that cannot be.
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
        return Err(format!("state.json: swa is {swa}, by the recipe it is {count}"));
    }
    if count > 0 {
        for (name, now) in checkpoint.bank.iter().chain(checkpoint.members.iter()) {
            let there = checkpoint.average.expect::<f32>(name, now.shape());
            there.map_err(|error| format!("swa.safetensors: {error}"))?;
        }
    }
    Ok(checkpoint.average.clone())
}

/// The mean of `count` tensors, the last of which is `now`, and `mean` that of those before it.
fn toward(mean: Option<&Tensor>, now: &Tensor, count: u64) -> Tensor {
    let Some(mean) = mean else { return now.clone() };
    let (Values::F32(means), Values::F32(values)) = (mean.values(), now.values()) else {
        unreachable!("trained numbers are f32");
    };
    let share = 1.0 / count as f32;
    let values = means.iter().zip(values).map(|(mean, now)| mean + (now - mean) * share).collect();
    Tensor::new(now.shape(), values)
}
