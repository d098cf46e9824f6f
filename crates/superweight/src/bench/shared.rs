//! The time that sharing adds to a step: a step with composed weights beside a step of the same
//! members without sharing.
//!
//! Both ensembles are ready in one process and run alternate steps, so that other load of the
//! machine affects both.

use std::time::{Duration, Instant};

use superweight_engine::{Device, Error, Sgd, SgdOptions};
use superweight_plan::SharingPlan;

use super::synthetic::{median, noise};
use crate::model::bank;
use crate::model::ensemble::{Ensemble, EnsembleOptions};
use crate::model::recording::RecordedWork;

/// An ensemble without sharing and one with composed weights, to be measured in alternation.
#[derive(Debug)]
pub struct SharedBench<D: Device> {
    dense: Side<D>,
    shared: Side<D>,
}

/// Times of steps with and without sharing.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// Median time of a step without sharing, in milliseconds.
    pub dense_ms: f64,
    /// Median time of a step with composed weights, in milliseconds.
    pub shared_ms: f64,
    /// Median over pairs of steps: time with composed weights divided by time without sharing.
    pub ratio: f64,
    /// Number of pairs of steps measured.
    pub repeats: usize,
}

/// One of the two ensembles, with all that a training step needs.
#[derive(Debug)]
struct Side<D: Device> {
    ensemble: Ensemble<D>,
    optimizer: Sgd<D>,
    step: RecordedWork<D>,
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
        // Learning rates are zero at first: a step does all its work, and parameters stay finite.
        let optimizer =
            ensemble.optimizer(SgdOptions { momentum: 0.9, nesterov: true }, |_| 5e-4)?;
        Ok(Self { ensemble, optimizer, step: RecordedWork::New })
    }

    /// Runs one training step; returns its time in milliseconds.
    fn step(&mut self) -> Result<f64, Error> {
        let start = Instant::now();
        let Self { ensemble, optimizer, step } = self;
        let device = ensemble.memory().device().clone();
        step.run(&device, &mut || {
            ensemble.gradients()?;
            ensemble.update(optimizer);
            Ok(())
        })?;
        device.finish()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }
}

impl<D: Device> SharedBench<D> {
    /// Compiles and allocates both ensembles. `dense` is the plan of the members without sharing,
    /// `plan` the one with it.
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

    /// Measures pairs of steps until `time` has passed, at least five pairs, after three that warm
    /// up and record. The order within a pair changes from pair to pair.
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
