//! Stochastic gradient descent over flat storage, with the same formulas as PyTorch's `SGD`
//! (dampening 0):
//!
//! ```text
//! g ← g + λ·p        b ← μ·b + g        p ← p − η·(g + μ·b)   (Nesterov)   or   p − η·b
//! ```
//!
//! A group is a set of ranges of the parameter storage with its own weight decay λ and learning
//! rate η. Elements in no group (composed weights, gaps) are not updated. Without momentum there is
//! no momentum buffer.

use std::ops::Range;

use super::memory::Memory;
use crate::device::Device;
use crate::device::buffer::{Element, Region, Space};
use crate::device::sgd::{ParameterGroup, SgdGroups, SgdOptions};
use crate::error::Error;

/// A subset of the parameters of an [`Sgd`]. A step with it changes neither the other parameters
/// nor their momentum.
#[derive(Debug)]
pub struct SgdSubset<D: Device> {
    updater: D::Updater,
}

/// An SGD optimizer with its momentum. Learning rates are on the device, so a replayed recording
/// uses the current ones.
#[derive(Debug)]
pub struct Sgd<D: Device> {
    device: D,
    groups: SgdGroups,
    updater: D::Updater,
    lrs: D::Buffer,
    momentum: D::Buffer,
}

impl<D: Device> Sgd<D> {
    /// Creates an optimizer of the given groups, with zero momentum and learning rates.
    pub fn new(
        memory: &Memory<D>,
        options: SgdOptions,
        groups: Vec<ParameterGroup>,
    ) -> Result<Self, Error> {
        let len = memory.layout().parameter_len;
        check_groups(&groups, len)?;
        let device = memory.device().clone();
        let kept = if options.momentum == 0.0 { 0 } else { len };
        let momentum = device.allocate(Space::State, kept, 0)?;
        let lrs = device.allocate(Space::State, groups.len(), 0)?;
        let groups = SgdGroups { options, groups };
        let updater = device.prepare_sgd(&groups, &regions(memory))?;
        Ok(Self { device, groups, updater, lrs, momentum })
    }

    /// Sets one learning rate per group for the following steps.
    pub fn set_lrs(&mut self, lrs: &[f32]) -> Result<(), Error> {
        let groups = self.groups.groups.len();
        if lrs.len() != groups {
            return Err(Error::LearningRates { groups, lrs: lrs.len() });
        }
        self.device.write(&mut self.lrs, floats(0, groups), lrs);
        Ok(())
    }

    /// Runs one step with the current gradients.
    pub fn step(&mut self, memory: &mut Memory<D>) {
        self.device.sgd(&self.updater, &self.lrs, &mut self.momentum, &mut memory.storages);
    }

    /// All parameters except these ranges, in the same groups.
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

    /// Runs one step for a subset, with the learning rates and momentum of the whole optimizer.
    pub fn step_subset(&mut self, part: &SgdSubset<D>, memory: &mut Memory<D>) {
        self.device.sgd(&part.updater, &self.lrs, &mut self.momentum, &mut memory.storages);
    }

    /// Parameter groups.
    pub fn groups(&self) -> &[ParameterGroup] {
        &self.groups.groups
    }

    /// Returns true if the optimizer keeps momentum.
    pub fn has_momentum(&self) -> bool {
        self.groups.options.momentum != 0.0
    }

    /// Reads the momentum of a trainable tensor. Returns `None` if the optimizer keeps none.
    pub fn momentum(&self, parameter: Region) -> Option<Vec<f32>> {
        self.has_momentum().then(|| {
            let mut values = vec![0.0; parameter.len];
            self.device.read(&self.momentum, floats(parameter.offset, parameter.len), &mut values);
            values
        })
    }

    /// Sets the momentum of a trainable tensor. Does nothing if the optimizer keeps none.
    pub fn set_momentum(&mut self, parameter: Region, values: &[f32]) -> Result<(), Error> {
        if values.len() != parameter.len {
            let (expected, got) = (parameter.len, values.len());
            return Err(Error::WrongLength { name: "momentum".to_owned(), expected, got });
        }
        if self.has_momentum() {
            self.device.write(&mut self.momentum, floats(parameter.offset, parameter.len), values);
        }
        Ok(())
    }
}

/// Regions of all trainable tensors.
fn regions<D: Device>(memory: &Memory<D>) -> Vec<Region> {
    memory.layout().parameters().map(|(_, region)| region).collect()
}

/// Parts of `range` that are not in `idle`.
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

/// A region of a storage of f32 values.
fn floats(offset: usize, len: usize) -> Region {
    Region { space: Space::State, offset, len, element: Element::Float }
}

fn check_groups(groups: &[ParameterGroup], len: usize) -> Result<(), Error> {
    let mut all: Vec<(usize, Range<usize>)> = Vec::new();
    for (group, ParameterGroup { ranges, .. }) in groups.iter().enumerate() {
        all.extend(ranges.iter().map(|range| (group, range.clone())));
    }
    all.sort_by_key(|(_, range)| range.start);
    let mut end = 0;
    for (group, range) in all {
        let problem = match () {
            _ if range.end > len => "are outside the parameter storage",
            _ if range.end < range.start => "are reversed",
            _ if range.start < end => "already belong to a group",
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
    fn idle_ranges_are_cut_out() {
        let outside = |idle: &[Range<usize>]| outside(&(10..20), idle);
        let all = std::slice::from_ref(&(10..20));
        assert_eq!(outside(&[]), all);
        assert_eq!(outside(&[0..10, 20..30]), all);
        assert_eq!(outside(&[18..40, 0..12, 14..15, 14..16]), [12..14, 16..18]);
        assert_eq!(outside(&[5..12, 11..25]), []);
    }
}
