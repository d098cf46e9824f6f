//! What sharing costs: a step with composed weights beside a step of the same members without sharing.
//!
//! Both are ready in one process and take turns, step by step, so that whatever else the machine does falls on both.

use std::time::{Duration, Instant};

use superweight_engine::{Device, Error, Sgd, SgdOptions};
use superweight_plan::SharingPlan;

use super::{median, noise};
use crate::model::bank;
use crate::model::ensemble::{Ensemble, EnsembleOptions};
use crate::model::recording::RecordedWork;

/// Two ensembles that take turns.
#[derive(Debug)]
pub struct SharedBench<D: Device> {
    dense: Side<D>,
    shared: Side<D>,
}

/// Times of both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Median step without sharing.
    pub dense_ms: f64,
    /// Median step with composed weights.
    pub shared_ms: f64,
    /// Median over turns of the second by the first.
    pub ratio: f64,
    /// MemberSchedule.
    pub repeats: usize,
}

#[derive(Debug)]
struct Side<D: Device> {
    ensemble: Ensemble<D>,
    optimizer: Sgd<D>,
    replayed: RecordedWork<D>,
}

impl<D: Device> Side<D> {
    fn new(device: &D, plan: &SharingPlan, batch: usize) -> Result<Self, Error> {
        let mut ensemble = Ensemble::new(device, plan, &EnsembleOptions::train(batch))?;
        bank::initialize(plan, ensemble.memory_mut(), 0)?;
        let [member, ..] = &plan.members[..] else { unreachable!("a plan has members") };
        let input = member.input;
        let all = batch * ensemble.heads();
        let images = noise(1, all * input.channels * input.height * input.width);
        let labels: Vec<u32> = (0..all).map(|i| (i % member.classes) as u32).collect();
        ensemble.set_batch(&images, &labels)?;
        // A rate of zero, which is what rates are at first, does all the work and keeps the numbers tame.
        let optimizer =
            ensemble.optimizer(SgdOptions { momentum: 0.9, nesterov: true }, |_| 5e-4)?;
        Ok(Self { ensemble, optimizer, replayed: RecordedWork::New })
    }

    fn step(&mut self) -> Result<f64, Error> {
        let start = Instant::now();
        let Self { ensemble, optimizer, replayed } = self;
        let device = ensemble.memory().device().clone();
        replayed.run(&device, &mut || {
            ensemble.gradients()?;
            ensemble.update(optimizer);
            Ok(())
        })?;
        device.finish()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }
}

impl<D: Device> SharedBench<D> {
    /// Compiles and allocates both; `dense` has the members of `plan` without sharing.
    pub fn new(
        device: &D,
        dense: &SharingPlan,
        plan: &SharingPlan,
        batch: usize,
    ) -> Result<Self, Error> {
        Ok(Self {
            dense: Side::new(device, dense, batch)?,
            shared: Side::new(device, plan, batch)?,
        })
    }

    /// MemberSchedule until `time` has passed, at least five, after three to warm up and to be recorded; who begins changes from turn to turn.
    pub fn measure(&mut self, time: Duration) -> Result<Comparison, Error> {
        let (mut dense, mut shared) = (vec![], vec![]);
        for _ in 0..3 {
            self.dense.step()?;
            self.shared.step()?;
        }
        let begin = Instant::now();
        while dense.len() < 5 || begin.elapsed() < time {
            if dense.len() % 2 == 0 {
                dense.push(self.dense.step()?);
                shared.push(self.shared.step()?);
            } else {
                shared.push(self.shared.step()?);
                dense.push(self.dense.step()?);
            }
        }
        let ratios = dense.iter().zip(&shared).map(|(dense, shared)| shared / dense).collect();
        let repeats = dense.len();
        let [dense_ms, shared_ms, ratio] = [dense, shared, ratios].map(|mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            median(&values)
        });
        Ok(Comparison { dense_ms, shared_ms, ratio, repeats })
    }
}
