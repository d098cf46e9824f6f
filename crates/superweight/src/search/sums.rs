//! Sums of gradients over an epoch. They are added up on the device after each backward pass and
//! read once at the end.
//!
//! Σ dL/dW of all clustered layers takes as much memory as their weights. Σ dL/dα is small, but
//! computing dL/dα reads dL/dW once more, as much work as composing layers with their own
//! coefficients.

use superweight_engine::{Accumulator, Device, Error, Memory};
use superweight_plan::{LayerId, SharingPlan};

use super::coefficients::{CoefficientGradient, refinement_candidates};
use super::pairs::LayerTensors;
use crate::model::bank::{CoefficientProbe, weight_name};

/// Σ dL/dW of every clustered layer, in f32, for Eq. 2.
#[derive(Debug)]
pub struct WeightGradientSums<D: Device> {
    layers: Vec<LayerId>,
    sums: Accumulator<D>,
}

impl<D: Device> WeightGradientSums<D> {
    /// Returns empty sums for the clustered layers of a plan.
    pub fn new(plan: &SharingPlan, memory: &Memory<D>) -> Result<Self, Error> {
        let layers: Vec<LayerId> =
            plan.clusters.iter().flat_map(|cluster| cluster.layers.clone()).collect();
        let region = |&id: &LayerId| memory.layout().gradient(&weight_name(plan, id));
        let regions = layers.iter().map(region).collect::<Result<_, _>>()?;
        Ok(Self { layers, sums: Accumulator::new(memory, regions)? })
    }

    /// Adds the gradients of the last backward pass.
    pub fn observe(&mut self, memory: &Memory<D>) {
        memory.accumulate(&mut self.sums);
    }

    /// Reads the sum of every layer from the device.
    pub fn read(&self) -> LayerTensors {
        self.layers.iter().enumerate().map(|(i, &layer)| (layer, self.sums.read(i))).collect()
    }
}

/// Σ dL/dα of every layer of every SuperWeight, in f32, for Eq. 3.
#[derive(Debug)]
pub struct CoefficientGradientSums<D: Device> {
    probe: CoefficientProbe<D>,
    sums: Accumulator<D>,
}

impl<D: Device> CoefficientGradientSums<D> {
    /// Returns empty sums for the SuperWeights of a plan. `memory` is that of an ensemble for a
    /// plan that can be refined.
    pub fn new(plan: &SharingPlan, memory: &Memory<D>) -> Result<Self, Error> {
        let probe = CoefficientProbe::new(memory.device(), plan, memory.layout())?;
        let sums = Accumulator::new(memory, probe.gradients())?;
        Ok(Self { probe, sums })
    }

    /// Computes dL/dα of the last backward pass and adds it. Must run before the optimizer's step,
    /// because it reads the templates of that pass.
    pub fn observe(&mut self, memory: &mut Memory<D>) -> Result<(), Error> {
        self.probe.run(memory)?;
        memory.accumulate(&mut self.sums);
        Ok(())
    }

    /// Reads the sums of all [`refinement_candidates`] from the device.
    pub fn read(&self, plan: &SharingPlan) -> Vec<CoefficientGradient> {
        let sums: Vec<Vec<f32>> =
            (0..self.probe.gradients().len()).map(|set| self.sums.read(set)).collect();
        let of = |(superweight, layer, shape): (_, _, [usize; 3])| {
            let (set, first) = self.probe.location(plan, superweight, layer);
            let values = sums[set][first..first + shape.iter().product::<usize>()].to_vec();
            CoefficientGradient { superweight, layer, shape, values }
        };
        refinement_candidates(plan).into_iter().map(of).collect()
    }
}
