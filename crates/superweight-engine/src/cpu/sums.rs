//! Sums of regions over many runs, on the CPU.

use rayon::prelude::*;

use super::buffer::Storages;
use super::rows::FLAT_TASK;
use super::vector::vectorised;
use crate::device::buffer::Region;

pub(super) fn accumulate(storages: &Storages, regions: &[Region], mut sums: &mut [f32]) {
    for region in regions {
        let (sum, rest) = sums.split_at_mut(region.len);
        let values = storages[region.space as usize].floats_of(*region);
        sum.par_chunks_mut(FLAT_TASK)
            .zip(values.par_chunks(FLAT_TASK))
            .for_each(|(sum, x)| add(sum, x));
        sums = rest;
    }
}

vectorised! {
    fn add(sum: &mut [f32], x: &[f32]) {
        sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
    }
}
