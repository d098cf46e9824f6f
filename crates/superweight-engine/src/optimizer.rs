//! Stochastic gradient descent over flat storage, exactly as PyTorch's `SGD` (dampening 0):
//!
//! ```text
//! g ← g + λ·p        b ← μ·b + g        p ← p − η·(g + μ·b)   (Nesterov)   or   p − η·b
//! ```
//!
//! A group is a set of stretches of the parameter storage with its own decay λ and, at each step, its own rate η.
//! Numbers in no group (composed weights, gaps) are left alone. Without momentum no buffer is kept.

use std::ops::Range;

use crate::device::{Device, Memory};
use crate::error::Error;
use crate::program::Space;

/// Parameters that are decayed alike.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterGroup {
    /// Stretches of the flat parameter storage.
    pub ranges: Vec<Range<usize>>,
    /// Weight decay λ.
    pub decay: f32,
}

impl ParameterGroup {
    /// A group of one stretch.
    pub fn new(range: Range<usize>, decay: f32) -> Self {
        Self { ranges: Vec::from([range]), decay }
    }
}

/// Options of the optimizer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdOptions {
    /// Momentum μ; 0 is plain descent.
    pub momentum: f32,
    /// Whether to look ahead.
    pub nesterov: bool,
}

/// One step, as a device sees it.
#[derive(Clone, Copy, Debug)]
pub struct SgdStep<'a> {
    /// Momentum and kind.
    pub options: SgdOptions,
    /// The groups.
    pub groups: &'a [ParameterGroup],
    /// One learning rate per group.
    pub rates: &'a [f32],
}

/// The optimizer with its momentum.
#[derive(Debug)]
pub struct Sgd<D: Device> {
    options: SgdOptions,
    groups: Vec<ParameterGroup>,
    momentum: D::Buffer,
}

impl<D: Device> Sgd<D> {
    /// An optimizer of the given groups, with zero momentum.
    pub fn new(memory: &Memory<D>, options: SgdOptions, groups: Vec<ParameterGroup>) -> Result<Self, Error> {
        let numbers = memory.layout().parameter_numbers;
        check_groups(&groups, numbers)?;
        let kept = if options.momentum == 0.0 { 0 } else { numbers };
        let momentum = memory.device().allocate(Space::Parameters, kept)?;
        Ok(Self { options, groups, momentum })
    }

    /// One step with one learning rate per group.
    pub fn step(&mut self, memory: &mut Memory<D>, rates: &[f32]) -> Result<(), Error> {
        if rates.len() != self.groups.len() {
            return Err(Error::LearningRates { groups: self.groups.len(), rates: rates.len() });
        }
        let device = memory.device().clone();
        let step = SgdStep { options: self.options, groups: &self.groups, rates };
        let [_, _, parameters, gradients, _] = &mut memory.storages;
        device.sgd(&step, parameters, gradients, &mut self.momentum);
        Ok(())
    }

    /// The groups.
    pub fn groups(&self) -> &[ParameterGroup] {
        &self.groups
    }

    /// The momentum buffer, for checkpoints; laid out like the parameters.
    pub fn momentum(&self) -> &D::Buffer {
        &self.momentum
    }

    /// The momentum buffer, to restore it.
    pub fn momentum_mut(&mut self) -> &mut D::Buffer {
        &mut self.momentum
    }
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
