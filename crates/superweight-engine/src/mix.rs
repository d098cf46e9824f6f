//! Tensors mixed from blocks: what makes weights out of trainable numbers before a graph reads them.
//!
//! ```text
//! cell[r] = Σₖ α[r, k]·T[k]            weight[tile of use u] = factor[u]·cell[row of u], cropped
//! ```
//!
//! A [`MixSet`] is K blocks `T` of one shape and the rows `α`; a [`MixUse`] says where in which tensor a cell goes. One
//! cell may go to many places, with different factors. Backward gathers dL/dW into dL/dcell, which gives dL/dα = dcell·Tᵀ
//! and dL/dT = αᵀ·dcell. The engine does not ask why anybody would want that; it asks that no number of a tensor is
//! written twice, and checks it. Where tensors are decayed, backward takes dL/dW + λ·W for dL/dW: what the blocks are pulled by
//! is then the length of what they make.
//!
//! Rows of α may themselves be products ([`MixFactors`]): `α[r] = pattern[row of r] ∘ gain[row of r]`, element by element, so
//! that many uses have rows of their own which differ by K numbers in all.
//!
//! Blocks lie like weights, OHWI: `[rows, kernel positions, columns]`, so that a tile is copied in runs of columns.

use std::collections::HashMap;

use crate::device::{Device, Memory};
use crate::error::Error;
use crate::program::{Region, Space};

/// Shape of a block: output channels, kernel positions, input channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Output channels.
    pub rows: usize,
    /// Kernel height times width.
    pub positions: usize,
    /// Input channels.
    pub cols: usize,
}

impl Block {
    /// Numbers in it.
    pub fn len(&self) -> usize {
        self.rows * self.positions * self.cols
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Blocks, coefficients and where the cells they make go.
#[derive(Clone, Debug, PartialEq)]
pub struct MixSet {
    /// For errors.
    pub name: String,
    /// Shape of each block.
    pub block: Block,
    /// K blocks, one after another.
    pub blocks: Region,
    /// `[cells, K]`; none for a single block that is the only cell.
    pub coefficients: Option<Region>,
    /// What the coefficients are the product of, where they are: then mixing writes them.
    pub factors: Option<MixFactors>,
    /// In the order of the cells.
    pub uses: Vec<MixUse>,
    /// What the backward pass computes.
    pub gradients: MixGradients,
    /// Weight decay λ of the tensors.
    pub decay: f32,
}

/// `α[r, k] = patterns[p, k]·gains[g, k]` with `[p, g]` the rows of r.
#[derive(Clone, Debug, PartialEq)]
pub struct MixFactors {
    /// `[patterns, K]`.
    pub patterns: Region,
    /// `[gains, K]`.
    pub gains: Region,
    /// Of each row of coefficients, in the order of gains.
    pub rows: Vec<[u32; 2]>,
}

impl MixFactors {
    /// First row of coefficients of each of so many gains, and the end of the last.
    pub(crate) fn by_gain(&self, gains: usize) -> Vec<u32> {
        (0..=gains)
            .map(|gain| self.rows.partition_point(|row| (row[1] as usize) < gain) as u32)
            .collect()
    }

    /// The rows of coefficients in the order of so many patterns, and where each pattern's begin and the last's end.
    pub(crate) fn by_pattern(&self, patterns: usize) -> (Vec<u32>, Vec<u32>) {
        let mut order: Vec<u32> = (0..self.rows.len() as u32).collect();
        order.sort_by_key(|&row| (self.rows[row as usize][0], row));
        let before = |pattern: usize| {
            order.partition_point(|&row| (self.rows[row as usize][0] as usize) < pattern) as u32
        };
        let starts = (0..=patterns).map(before).collect();
        (order, starts)
    }
}

/// What the backward pass of a set computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MixGradients {
    /// Those of blocks and coefficients.
    #[default]
    Both,
    /// Those of the coefficients alone, or of their gains; the blocks' and patterns' are left as they are. What a set gives whose every use has a cell of
    /// its own is the gradient that each use asks of the coefficients it shares.
    Coefficients,
}

impl MixSet {
    /// K.
    pub fn count(&self) -> usize {
        self.blocks.len / self.block.len()
    }

    /// Cells that are made.
    pub fn cells(&self) -> usize {
        self.coefficients.map_or(1, |region| region.len / self.count())
    }
}

/// A cell at its place in a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MixUse {
    /// Which cell.
    pub cell: usize,
    /// The weight, `[outputs, positions, inputs]`.
    pub tensor: Region,
    /// Its input channels.
    pub inputs: usize,
    /// First output and input channel of the tile.
    pub at: [usize; 2],
    /// Output and input channels of the tile: the block's, or fewer at an edge.
    pub extent: [usize; 2],
    /// What the cell is multiplied by.
    pub factor: f32,
}

/// Sets checked against a layout and prepared for a device.
#[derive(Debug)]
pub struct Mix<D: Device> {
    sets: Vec<MixSet>,
    mixer: D::Mixer,
    scratch_bytes: usize,
}

impl<D: Device> Mix<D> {
    /// Checks that every region and tile lies where it should and no number is written twice.
    pub fn new(device: &D, sets: Vec<MixSet>) -> Result<Self, Error> {
        check_sets(&sets)?;
        let (mixer, scratch_bytes) = device.prepare_mix(&sets)?;
        Ok(Self { sets, mixer, scratch_bytes })
    }

    /// The sets.
    pub fn sets(&self) -> &[MixSet] {
        &self.sets
    }

    /// What the device prepared for them.
    pub fn mixer(&self) -> &D::Mixer {
        &self.mixer
    }

    /// Bytes of the arena that mixing needs; programs may use the same bytes before and after.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }
}

/// Who reads what is mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MixReaders {
    /// Programs and the backward pass alone: what a device has only for others (weights in 32 bits where its convolutions read
    /// them in 16) may stay as it was.
    Programs,
    /// Whoever asks for a parameter too.
    Everyone,
}

impl<D: Device> Memory<D> {
    /// Writes every mixed tensor from blocks and coefficients, for these readers.
    pub fn mix(&mut self, mix: &Mix<D>, readers: MixReaders) -> Result<(), Error> {
        self.check_arena(mix.scratch_bytes)?;
        let device = self.device().clone();
        device.mix(mix, readers, &mut self.storages);
        Ok(())
    }

    /// Turns the gradients of mixed tensors into those of blocks and coefficients, overwriting these. Coefficients that
    /// are products are those of the last [`Memory::mix`].
    pub fn mix_backward(&mut self, mix: &Mix<D>) -> Result<(), Error> {
        self.check_arena(mix.scratch_bytes)?;
        let device = self.device().clone();
        device.mix_backward(mix, &mut self.storages);
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
        return wrong(format!("{} numbers are not blocks of {:?}", set.blocks.len, set.block));
    }
    let factors = set.factors.iter().flat_map(|factors| [factors.patterns, factors.gains]);
    let regions = [Some(set.blocks), set.coefficients].into_iter().flatten().chain(factors);
    if regions
        .chain(set.uses.iter().map(|u| u.tensor))
        .any(|region| region.space != Space::Parameters)
    {
        return wrong("blocks, coefficients and tensors are parameters".into());
    }
    match set.coefficients {
        None if set.count() != 1 => wrong(format!("{} blocks need coefficients", set.count())),
        Some(region) if region.len == 0 || !region.len.is_multiple_of(set.count()) => {
            wrong(format!("{} coefficients are not rows of {}", region.len, set.count()))
        }
        None if set.gradients == MixGradients::Coefficients => {
            wrong("there are no coefficients".into())
        }
        _ if !set.uses.is_sorted_by_key(|used| used.cell) => {
            wrong("uses are not in the order of cells".into())
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
        return wrong("every row of coefficients is the product of two others");
    }
    if [patterns, gains].iter().any(|region| region.len == 0 || !region.len.is_multiple_of(count)) {
        return wrong("patterns or gains are not whole rows");
    }
    let known = [patterns.len / count, gains.len / count];
    if rows.iter().any(|row| (0..2).any(|i| row[i] as usize >= known[i])) {
        return wrong("there is no such pattern or gain");
    }
    if !rows.is_sorted_by_key(|row| row[1]) {
        return wrong("rows of coefficients are not in the order of gains");
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
        return wrong("there is no such cell, or the tile is not within it");
    }
    if row + rows > outputs || col + cols > inputs {
        return wrong("the tile lies outside the tensor");
    }
    if !factor.is_finite() {
        return wrong("the factor is not finite");
    }
    let numbers = written.entry(tensor.offset).or_insert_with(|| vec![false; outputs * inputs]);
    if numbers.len() != outputs * inputs {
        return wrong("the tensor has another shape in another use");
    }
    for at in (row..row + rows).flat_map(|r| (col..col + cols).map(move |c| r * inputs + c)) {
        if std::mem::replace(&mut numbers[at], true) {
            return wrong("a number is written twice");
        }
    }
    Ok(())
}
