//! Checks mix sets and applies them to a memory.

use std::collections::HashMap;

use super::memory::Memory;
use crate::device::Device;
use crate::device::buffer::Space;
use crate::device::mix::{MixFactors, MixGradients, MixOutput, MixSet, MixUse};
use crate::error::Error;

/// Mix sets, checked and prepared for a device.
#[derive(Debug)]
pub struct Mix<D: Device> {
    sets: Vec<MixSet>,
    mixer: D::Mixer,
    scratch_bytes: usize,
}

impl<D: Device> Mix<D> {
    /// Prepares sets. Fails if a region or tile is out of range, or if an element would be written
    /// twice.
    pub fn new(device: &D, sets: Vec<MixSet>) -> Result<Self, Error> {
        check_sets(&sets)?;
        let (mixer, scratch_bytes) = device.prepare_mix(&sets)?;
        Ok(Self { sets, mixer, scratch_bytes })
    }

    /// Mix sets.
    pub fn sets(&self) -> &[MixSet] {
        &self.sets
    }

    /// Prepared form of the sets.
    pub fn mixer(&self) -> &D::Mixer {
        &self.mixer
    }

    /// Bytes of arena that mixing needs as scratch memory. Programs may use the same bytes before
    /// and after.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }
}

impl<D: Device> Memory<D> {
    /// Computes every mixed tensor from templates and coefficients. `readers` selects the copies to
    /// update.
    pub fn mix(&mut self, mix: &Mix<D>, readers: MixOutput) -> Result<(), Error> {
        self.check_arena(mix.scratch_bytes)?;
        let device = self.device().clone();
        device.mix(&mix.sets, &mix.mixer, readers, &mut self.storages);
        Ok(())
    }

    /// Computes gradients of templates and coefficients from gradients of the mixed tensors, and
    /// overwrites them. Coefficients that are products have the values of the last [`Memory::mix`].
    pub fn mix_backward(&mut self, mix: &Mix<D>) -> Result<(), Error> {
        self.check_arena(mix.scratch_bytes)?;
        let device = self.device().clone();
        device.mix_backward(&mix.sets, &mix.mixer, &mut self.storages);
        Ok(())
    }
}

fn check_sets(sets: &[MixSet]) -> Result<(), Error> {
    let mut written: HashMap<usize, Vec<bool>> = HashMap::new();
    for set in sets {
        check_set(set)?;
        for (index, used) in set.uses.iter().enumerate() {
            check_use(set, index, used, &mut written)?;
        }
    }
    Ok(())
}

fn check_set(set: &MixSet) -> Result<(), Error> {
    let wrong = |problem: String| Err(Error::Mix { set: set.name.clone(), problem });
    if set.block.is_empty()
        || set.blocks.len == 0
        || !set.blocks.len.is_multiple_of(set.block.len())
    {
        return wrong(format!("{} elements are not a multiple of {:?}", set.blocks.len, set.block));
    }
    let factors = set.factors.iter().flat_map(|factors| [factors.patterns, factors.gains]);
    let regions = [Some(set.blocks), set.coefficients].into_iter().flatten().chain(factors);
    if regions
        .chain(set.uses.iter().map(|u| u.tensor))
        .any(|region| region.space != Space::Parameters)
    {
        return wrong("templates, coefficients and tensors must be parameters".into());
    }
    match set.coefficients {
        None if set.count() != 1 => wrong(format!("{} templates need coefficients", set.count())),
        Some(region) if region.len == 0 || !region.len.is_multiple_of(set.count()) => {
            wrong(format!("{} coefficients are not rows of {}", region.len, set.count()))
        }
        None if set.gradients == MixGradients::Coefficients => {
            wrong("there are no coefficients".into())
        }
        _ if !set.uses.is_sorted_by_key(|used| used.cell) => {
            wrong("uses are not sorted by cell".into())
        }
        _ => check_factors(set),
    }
}

fn check_factors(set: &MixSet) -> Result<(), Error> {
    let Some(MixFactors { patterns, gains, rows }) = &set.factors else { return Ok(()) };
    let wrong =
        |problem: &str| Err(Error::Mix { set: set.name.clone(), problem: problem.to_owned() });
    let count = set.count();
    if set.coefficients.is_none() || rows.len() != set.cells() {
        return wrong("every row of coefficients needs a pattern and a gain");
    }
    if [patterns, gains].iter().any(|region| region.len == 0 || !region.len.is_multiple_of(count)) {
        return wrong("patterns or gains are not whole rows");
    }
    let known = [patterns.len / count, gains.len / count];
    if rows.iter().any(|row| (0..2).any(|i| row[i] as usize >= known[i])) {
        return wrong("a pattern or gain is out of range");
    }
    if !rows.is_sorted_by_key(|row| row[1]) {
        return wrong("rows of coefficients are not sorted by gain");
    }
    Ok(())
}

fn check_use(
    set: &MixSet,
    index: usize,
    used: &MixUse,
    written: &mut HashMap<usize, Vec<bool>>,
) -> Result<(), Error> {
    let wrong = |problem: &str| {
        Err(Error::Mix { set: set.name.clone(), problem: format!("use {index}: {problem}") })
    };
    let MixUse { cell, tensor, inputs, at: [row, col], extent: [rows, cols], factor } = *used;
    let row_len = set.block.positions * inputs;
    if row_len == 0 || !tensor.len.is_multiple_of(row_len) {
        return wrong("the tensor has no whole output channels");
    }
    let outputs = tensor.len / row_len;
    if cell >= set.cells()
        || rows > set.block.rows
        || cols > set.block.cols
        || rows == 0
        || cols == 0
    {
        return wrong("the cell is out of range, or the tile is larger than the template");
    }
    if row + rows > outputs || col + cols > inputs {
        return wrong("the tile exceeds the tensor");
    }
    if !factor.is_finite() {
        return wrong("the factor is not finite");
    }
    let elements = written.entry(tensor.offset).or_insert_with(|| vec![false; outputs * inputs]);
    if elements.len() != outputs * inputs {
        return wrong("the tensor has another shape in another use");
    }
    for at in (row..row + rows).flat_map(|r| (col..col + cols).map(move |c| r * inputs + c)) {
        if std::mem::replace(&mut elements[at], true) {
            return wrong("an element is written twice");
        }
    }
    Ok(())
}
