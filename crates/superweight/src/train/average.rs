//! The mean of what the last epochs of training ended with (`train.average`), instead of what the last step left
//! (stochastic weight averaging: Izmailov et al., Averaging Weights Leads to Wider Optima and Better Generalization, 2018).
//!
//! ```text
//! each of the last N epochs: numbers ─► mean ─► average.safetensors of its checkpoint
//! after the last:            mean ─► the network ─► batch norm sees SETTLING batches ─► evaluation, checkpoint
//! ```
//!
//! Templates and coefficients are averaged, not the weights they make, which would be numbers of their own. Running
//! statistics are of the weights that made them: the mean's are taken anew, by steps of rate 0.

use superweight_engine::Device;

use super::checkpoint::{parameters, set_parameters};
use super::{Limits, Phase, RestoreError, Session, Stage, Stopped, TrainError};
use crate::data::Batches;
use crate::run::{Checkpoint, RunError, Tensor, Tensors, Values};

/// Steps after which running statistics have forgotten what they were: 0.9¹⁰⁰ of it is left.
const SETTLING: u64 = 100;

/// How many epochs are in the mean after `done` of a phase, where the last `average` of training count.
fn counted(phase: &Phase, done: u64, average: u64) -> u64 {
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
    ) -> Result<Result<u64, Stopped>, TrainError> {
        let done = self.position.epoch + 1;
        let count = counted(phase, done, self.resolved.train.average);
        if count == 0 {
            return Ok(Ok(0));
        }
        let [bank, members] = parameters(self.trainer.ensemble())?;
        let mut mean = Tensors::default();
        for (name, now) in bank.iter().chain(members.iter()) {
            mean.insert(name, toward(self.mean.get(name), now, count));
        }
        if done < phase.epochs {
            self.mean = mean;
            return Ok(Ok(0));
        }
        self.mean = Tensors::default();
        set_parameters(self.trainer.parts_mut().0, &mean, &mean).map_err(|error| match error {
            RestoreError::Engine(error) => error,
            RestoreError::Tensor(error) => unreachable!("these tensors were just read: {error}"),
        })?;
        Ok(self.settle(phase, limits)?.map(|()| count))
    }

    /// Batch norm's statistics, for numbers that no step has led to.
    pub(super) fn settle(
        &mut self,
        phase: &Phase,
        limits: &Limits,
    ) -> Result<Result<(), Stopped>, TrainError> {
        let mut batches = self.train_batches(phase)?;
        let mut draws = batches.buffer();
        let first = phase.epochs * self.steps_per_epoch();
        for step in first..first + SETTLING {
            batches.fill(step, &mut draws)?;
            self.trainer.train_step(&draws, 0.0, None)?;
            if limits.interrupted() {
                return Ok(Err(Stopped::Interrupted));
            }
        }
        self.trainer.ensemble().memory().finish()?;
        Ok(Ok(()))
    }
}

/// The mean of a run that goes on after `done` epochs of a phase.
pub(super) fn restored(
    phase: &Phase,
    done: u64,
    average: u64,
    checkpoint: &Checkpoint,
) -> Result<Tensors, RunError> {
    if done == phase.epochs || counted(phase, done, average) == 0 {
        return Ok(Tensors::default());
    }
    for (name, now) in checkpoint.bank.iter().chain(checkpoint.members.iter()) {
        checkpoint.average.expect::<f32>(name, now.shape())?;
    }
    Ok(checkpoint.average.clone())
}

/// The mean of `count` tensors, the last of which is `now`, and `mean` that of those before it.
fn toward(mean: Option<&Tensor>, now: &Tensor, count: u64) -> Tensor {
    let Some(mean) = mean else { return now.clone() };
    let (Values::F32(mean), Values::F32(now_values)) = (mean.values(), now.values()) else {
        unreachable!("trained numbers are f32");
    };
    let share = 1.0 / count as f32;
    let values = mean.iter().zip(now_values).map(|(mean, now)| mean + (now - mean) * share).collect();
    Tensor::new(now.shape(), values)
}
