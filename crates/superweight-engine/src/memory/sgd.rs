//! Stochastic gradient descent over flat storage, exactly as PyTorch's `SGD` (dampening 0):
//!
//! ```text
//! g ← g + λ·p        b ← μ·b + g        p ← p − η·(g + μ·b)   (Nesterov)   or   p − η·b
//! ```
//!
//! A group is a set of stretches of the parameter storage with its own weight decay λ and, at each step, its own rate η.
//! Numbers in no group (composed weights, gaps) are left alone. Without momentum no buffer is kept.

use std::ops::Range;

use super::memory::Memory;
use crate::device::Device;
use crate::device::buffer::{Element, Region, Space};
use crate::device::sgd::{ParameterGroup, SgdGroups, SgdOptions};
use crate::error::Error;

/// Some of the numbers of an [`Sgd`], for steps that leave all others as they are, momentum too.
#[derive(Debug)]
pub struct SgdSubset<D: Device> {
    updater: D::Updater,
}

/// The optimizer with its momentum. Rates lie on the device, so that a recorded step takes the learning rates of its time.
#[derive(Debug)]
pub struct Sgd<D: Device> {
    device: D,
    groups: SgdGroups,
    updater: D::Updater,
    lrs: D::Buffer,
    momentum: D::Buffer,
}

impl<D: Device> Sgd<D> {
    /// An optimizer of the given groups, with zero momentum and learning rates.
    pub fn new(
        memory: &Memory<D>,
        options: SgdOptions,
        groups: Vec<ParameterGroup>,
    ) -> Result<Self, Error> {
        let numbers = memory.layout().parameter_len;
        check_groups(&groups, numbers)?;
        let device = memory.device().clone();
        let kept = if options.momentum == 0.0 { 0 } else { numbers };
        let momentum = device.allocate(Space::State, kept, 0)?;
        let lrs = device.allocate(Space::State, groups.len(), 0)?;
        let groups = SgdGroups { options, groups };
        let updater = device.prepare_sgd(&groups, &regions(memory))?;
        Ok(Self { device, groups, updater, lrs, momentum })
    }

    /// Sets one learning rate per group for the steps to come.
    pub fn set_lrs(&mut self, lrs: &[f32]) -> Result<(), Error> {
        let groups = self.groups.groups.len();
        if lrs.len() != groups {
            return Err(Error::LearningRates { groups, lrs: lrs.len() });
        }
        self.device.write(&mut self.lrs, numbers(0, groups), lrs);
        Ok(())
    }

    /// One step over the gradients as they are.
    pub fn step(&mut self, memory: &mut Memory<D>) {
        self.device.sgd(&self.updater, &self.lrs, &mut self.momentum, &mut memory.storages);
    }

    /// All numbers but these stretches, in the same groups.
    pub fn excluding(
        &self,
        idle: &[Range<usize>],
        memory: &Memory<D>,
    ) -> Result<SgdSubset<D>, Error> {
        let SgdGroups { options, groups } = &self.groups;
        let group = |group: &ParameterGroup| ParameterGroup {
            ranges: group.ranges.iter().flat_map(|range| outside(range, idle)).collect(),
            weight_decay: group.weight_decay,
        };
        let groups = SgdGroups { options: *options, groups: groups.iter().map(group).collect() };
        Ok(SgdSubset { updater: self.device.prepare_sgd(&groups, &regions(memory))? })
    }

    /// One step over the gradients of a part, with the learning rates and the momentum of the whole.
    pub fn step_subset(&mut self, part: &SgdSubset<D>, memory: &mut Memory<D>) {
        self.device.sgd(&part.updater, &self.lrs, &mut self.momentum, &mut memory.storages);
    }

    /// The groups.
    pub fn groups(&self) -> &[ParameterGroup] {
        &self.groups.groups
    }

    /// Whether any momentum is kept.
    pub fn has_momentum(&self) -> bool {
        self.groups.options.momentum != 0.0
    }

    /// Momentum of the tensor at a place of the parameter storage; none is kept without momentum.
    pub fn momentum(&self, parameter: Region) -> Option<Vec<f32>> {
        self.has_momentum().then(|| {
            let mut values = vec![0.0; parameter.len];
            self.device.read(&self.momentum, numbers(parameter.offset, parameter.len), &mut values);
            values
        })
    }

    /// Sets the momentum of the tensor at a place of the parameter storage, where any is kept.
    pub fn set_momentum(&mut self, parameter: Region, values: &[f32]) -> Result<(), Error> {
        if values.len() != parameter.len {
            let (expected, got) = (parameter.len, values.len());
            return Err(Error::WrongLength { name: "momentum".to_owned(), expected, got });
        }
        if self.has_momentum() {
            self.device.write(&mut self.momentum, numbers(parameter.offset, parameter.len), values);
        }
        Ok(())
    }
}

/// Places of all trainable tensors.
fn regions<D: Device>(memory: &Memory<D>) -> Vec<Region> {
    memory.layout().parameters().map(|(_, region)| region).collect()
}

/// What of a range lies outside of these.
fn outside(range: &Range<usize>, idle: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut idle: Vec<_> =
        idle.iter().filter(|idle| idle.start < range.end && idle.end > range.start).collect();
    idle.sort_by_key(|idle| idle.start);
    let (mut all, mut start) = (vec![], range.start);
    for idle in idle {
        if start < idle.start {
            all.push(start..idle.start);
        }
        start = start.max(idle.end);
    }
    if start < range.end {
        all.push(start..range.end);
    }
    all
}

/// A stretch of a storage of plain numbers.
fn numbers(offset: usize, len: usize) -> Region {
    Region { space: Space::State, offset, len, element: Element::Float }
}

fn check_groups(groups: &[ParameterGroup], numbers: usize) -> Result<(), Error> {
    let mut all: Vec<(usize, Range<usize>)> = Vec::new();
    for (group, ParameterGroup { ranges, .. }) in groups.iter().enumerate() {
        all.extend(ranges.iter().map(|range| (group, range.clone())));
    }
    all.sort_by_key(|(_, range)| range.start);
    let mut end = 0;
    for (group, range) in all {
        let problem = match () {
            _ if range.end > numbers => "lie outside the parameter storage",
            _ if range.end < range.start => "run backward",
            _ if range.start < end => "belong to a group already",
            _ => {
                end = range.end;
                continue;
            }
        };
        return Err(Error::ParameterGroup { group, start: range.start, end: range.end, problem });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_outside() {
        let outside = |idle: &[Range<usize>]| outside(&(10..20), idle);
        let all = std::slice::from_ref(&(10..20));
        assert_eq!(outside(&[]), all);
        assert_eq!(outside(&[0..10, 20..30]), all);
        assert_eq!(outside(&[18..40, 0..12, 14..15, 14..16]), [12..14, 16..18]);
        assert_eq!(outside(&[5..12, 11..25]), []);
    }
}
