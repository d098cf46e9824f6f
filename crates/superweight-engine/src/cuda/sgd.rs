//! Optimizer step on a GPU: all parameters in one launch, driven by a table of ranges.

use super::buffer::Allocation;
use super::buffer::{CudaBuffer, Storages};
use super::gpu::Gpu;
use super::launch::{Grid, THREADS, launch};
use super::precision::Precision;
use crate::device::buffer::{Element, Region, Space};
use crate::device::sgd::{SgdGroups, SgdOptions};
use crate::error::CudaError;

/// Largest number of elements in a range; one block processes one range.
const STRETCH: usize = 4096;

/// A range of parameters of one group and width, as the kernel reads it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    first: u64,
    count: u32,
    group: u32,
    weight_decay: f32,
    /// 1 if the gradient is bf16 and the parameter has a bf16 copy.
    narrow: u32,
}

/// Table of ranges on the GPU.
#[derive(Debug)]
pub struct Updater {
    table: Allocation,
    stretches: usize,
    options: SgdOptions,
}

fn stretches(groups: &SgdGroups, parameters: &[Region], precision: Precision) -> Vec<Stretch> {
    let mut all = Vec::new();
    for (index, group) in groups.groups.iter().enumerate() {
        for range in &group.ranges {
            for tensor in parameters {
                let end = range.end.min(tensor.offset + tensor.len);
                let mut first = range.start.max(tensor.offset);
                let narrow = precision == Precision::Bf16 && tensor.element == Element::Weight;
                while first < end {
                    let count = (end - first).min(STRETCH);
                    all.push(Stretch {
                        first: first as u64,
                        count: count as u32,
                        group: index as u32,
                        weight_decay: group.weight_decay,
                        narrow: u32::from(narrow),
                    });
                    first += count;
                }
            }
        }
    }
    all
}

impl Updater {
    pub(super) fn new(
        gpu: &Gpu,
        groups: &SgdGroups,
        parameters: &[Region],
    ) -> Result<Self, CudaError> {
        let stretches = stretches(groups, parameters, gpu.context.precision);
        let table = Allocation::of(&gpu.context, "the optimizer table", &stretches)?;
        Ok(Self { table, stretches: stretches.len(), options: groups.options })
    }

    pub(super) fn step(
        &self,
        gpu: &Gpu,
        lrs: &CudaBuffer,
        momentum: &CudaBuffer,
        storages: &Storages,
    ) {
        let parameters = storages[Space::Parameters as usize].base();
        let gradients = storages[Space::Gradients as usize].base();
        let SgdOptions { momentum: mu, nesterov } = self.options;
        let rule = match (mu == 0.0, nesterov) {
            (true, _) => 0i32,
            (false, false) => 1,
            (false, true) => 2,
        };
        let grid = Grid::new([self.stretches as u32, 1, 1], [THREADS, 1, 1]);
        let (lrs, momentum) = (lrs.base().main, momentum.base().main);
        // SAFETY: the table was made from the layout of these storages, and `Sgd` allocated
        // learning rates and momentum for all groups and parameters.
        unsafe {
            launch!(
                gpu.kernels,
                "sgd",
                grid,
                self.table.pointer,
                lrs,
                parameters.main,
                parameters.narrow,
                gradients.main,
                gradients.narrow,
                momentum,
                mu,
                rule,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuDevice;
    use crate::device::sgd::ParameterGroup;
    use crate::program::LayoutBuilder;

    /// Ranges cover every element of a group's tensors once and no gaps, and no range spans two
    /// tensors.
    #[test]
    fn stretches_cover_tensors_and_not_gaps() {
        let mut builder = LayoutBuilder::new();
        builder
            .parameter("a", 100)
            .unwrap()
            .parameter("b", 10_000)
            .unwrap()
            .parameter("c", 1)
            .unwrap();
        let layout = builder.finish(&CpuDevice::new(1).unwrap());
        let options = SgdOptions { momentum: 0.9, nesterov: true };
        let groups = vec![
            ParameterGroup::new(0..layout.parameter_len - 64, 0.5),
            ParameterGroup::new(layout.parameter_len - 64..layout.parameter_len, 0.0),
        ];
        let parameters: Vec<Region> = layout.parameters().map(|(_, region)| region).collect();
        let all = stretches(&SgdGroups { options, groups }, &parameters, Precision::Bf16);
        let counts: Vec<(u32, u32)> = all.iter().map(|s| (s.group, s.count)).collect();
        assert_eq!(counts, [(0, 100), (0, 4096), (0, 4096), (0, 1808), (1, 1)]);
        assert_eq!(all[1].first, 128, "after the gap");
    }
}
