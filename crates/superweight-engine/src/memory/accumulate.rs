//! Sums of regions over many runs, kept on the device: dL/dW of an epoch, or metrics of a pass over
//! a data set.
//!
//! The host reads them once at the end, so no run waits for the host.

use super::memory::Memory;
use crate::device::Device;
use crate::device::buffer::{Element, Region, Space};
use crate::error::Error;

/// Running sums of some regions.
#[derive(Debug)]
pub struct Accumulator<D: Device> {
    device: D,
    regions: Vec<Region>,
    sums: D::Buffer,
}

impl<D: Device> Accumulator<D> {
    /// Starts sums of the given regions at zero. Gradients, parameters, statistics and metrics can
    /// be summed.
    ///
    /// # Panics
    ///
    /// If a region has integer elements, or is in the arena, whose contents do not outlive a run.
    pub fn new(memory: &Memory<D>, regions: Vec<Region>) -> Result<Self, Error> {
        let sound =
            |region: &Region| region.element != Element::Index && region.space != Space::Arena;
        assert!(regions.iter().all(sound), "only values that outlive a run can be summed");
        let device = memory.device().clone();
        let sums =
            device.allocate(Space::State, regions.iter().map(|region| region.len).sum(), 0)?;
        Ok(Self { device, regions, sums })
    }

    /// Sets all sums to zero.
    pub fn clear(&mut self) {
        self.device.clear(&mut self.sums);
    }

    /// Sum of region number `index`.
    pub fn read(&self, index: usize) -> Vec<f32> {
        let offset = self.regions[..index].iter().map(|region| region.len).sum();
        let len = self.regions[index].len;
        let mut values = vec![0.0; len];
        let region = Region { space: Space::State, offset, len, element: Element::Float };
        self.device.read(&self.sums, region, &mut values);
        values
    }
}

impl<D: Device> Memory<D> {
    /// Adds the current values of the regions to the sums.
    pub fn accumulate(&self, sums: &mut Accumulator<D>) {
        self.device().accumulate(&self.storages, &sums.regions, &mut sums.sums);
    }
}
