//! Numbers summed over many runs, on the device: dL/dW of an epoch, metrics of a pass over a data set.
//!
//! Read once at the end, so that no run waits for the host.

use super::memory::Memory;
use crate::device::Device;
use crate::device::buffer::{Element, Region, Space};
use crate::error::Error;

/// Sums of some regions.
#[derive(Debug)]
pub struct Accumulator<D: Device> {
    device: D,
    regions: Vec<Region>,
    sums: D::Buffer,
}

impl<D: Device> Accumulator<D> {
    /// Zeros for regions of numbers: gradients, parameters, statistics, losses.
    ///
    /// # Panics
    ///
    /// For a region of indices or one of the arena, where nothing outlives a run.
    pub fn new(memory: &Memory<D>, regions: Vec<Region>) -> Result<Self, Error> {
        let sound =
            |region: &Region| region.element != Element::Index && region.space != Space::Arena;
        assert!(regions.iter().all(sound), "only numbers that outlive a run can be summed");
        let device = memory.device().clone();
        let sums =
            device.allocate(Space::State, regions.iter().map(|region| region.len).sum(), 0)?;
        Ok(Self { device, regions, sums })
    }

    /// Starts again from zero.
    pub fn clear(&mut self) {
        self.device.clear(&mut self.sums);
    }

    /// The sum of one of the regions.
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
    /// Adds the numbers as they are now.
    pub fn accumulate(&self, sums: &mut Accumulator<D>) {
        self.device().accumulate(&self.storages, &sums.regions, &mut sums.sums);
    }
}
