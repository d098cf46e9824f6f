//! Mixing on the CPU. A set is a linear map, like a 1×1 convolution whose weight is the templates
//! `[K, elements]` and whose pixels are the cells. Mixing is its gradient to the data, dL/dα its
//! forward pass, and dL/dT its gradient to the weight. The convolution kernels do all three; this
//! file only moves tiles.

use rayon::prelude::*;

use crate::cpu::buffer::{CpuBuffer, Storages};
use crate::cpu::conv::Conv;
use crate::cpu::share::Shared;
use crate::device::buffer::Write;
use crate::device::mix::{Block, MixGradients, MixSet, MixUse};
use crate::geometry::ConvGeometry;

use super::factors::Factors;
use super::region::{at, at_mut};

/// Number of uses that one task copies.
const TASK: usize = 32;

/// Prepared form of one set.
#[derive(Debug)]
pub struct Mixer {
    /// `None` for a set without coefficients.
    product: Option<Conv>,
    /// First use of each cell, followed by the number of uses.
    first_use: Vec<usize>,
    factors: Option<Factors>,
}

pub(in crate::cpu) fn prepare(set: &MixSet) -> (Mixer, usize) {
    let product = set.coefficients.map(|_| {
        Conv::new(ConvGeometry {
            batch: 1,
            input: [set.cells(), 1],
            in_channels: set.block.len(),
            out_channels: set.count(),
            kernel: [1, 1],
            stride: [1, 1],
            padding: [0, 0],
            groups: 1,
        })
    });
    let first_use =
        (0..=set.cells()).map(|cell| set.uses.partition_point(|used| used.cell < cell)).collect();
    let inner = product.as_ref().map_or(0, |conv| {
        conv.backward_data_scratch().max(conv.forward_scratch()).max(conv.backward_weight_scratch())
    });
    let factors =
        set.factors.as_ref().map(|factors| Factors::new(factors, set.count(), set.gradients));
    (Mixer { product, first_use, factors }, set.cells() * set.block.len() + inner)
}

pub(in crate::cpu) fn mix(sets: &[MixSet], mixers: &[Mixer], storages: &mut Storages) {
    let [arena, _, parameters, ..] = storages;
    let (arena, parameters) = (arena.floats_mut(), parameters.floats_mut());
    for (set, mixer) in sets.iter().zip(mixers) {
        let (cells, scratch) = arena.split_at_mut(set.cells() * set.block.len());
        if let (Some(factors), Some(region)) = (&mixer.factors, set.coefficients) {
            factors.multiply(parameters, region);
        }
        let blocks = at(parameters, set.blocks);
        match (&mixer.product, set.coefficients) {
            (Some(product), Some(region)) => {
                product.backward_data(at(parameters, region), blocks, cells, Write::Set, scratch)
            }
            _ => cells.copy_from_slice(blocks),
        }
        let target = Shared::new(parameters);
        set.uses.par_chunks(TASK).for_each(|uses| {
            for used in uses {
                let cell = &cells[used.cell * set.block.len()..][..set.block.len()];
                each_run(set.block, used, |from, to, len| {
                    // SAFETY: `Mix::new` checked that no element of a tensor belongs to two uses.
                    let run = unsafe { target.part(to, len) };
                    run.iter_mut()
                        .zip(&cell[from..from + len])
                        .for_each(|(w, c)| *w = used.factor * c);
                });
            }
        });
    }
}

pub(in crate::cpu) fn mix_backward(sets: &[MixSet], mixers: &[Mixer], storages: &mut Storages) {
    let [arena, _, parameters, gradients, _] = storages;
    let (arena, gradients) = (arena.floats_mut(), gradients.floats_mut());
    let parameters: &CpuBuffer = parameters;
    let parameters = parameters.floats();
    for (set, mixer) in sets.iter().zip(mixers) {
        let (cells, scratch) = arena.split_at_mut(set.cells() * set.block.len());
        gather(set, mixer, parameters, gradients, cells);
        match (&mixer.product, set.coefficients) {
            (Some(product), Some(region)) => {
                let (alpha, blocks) = (at(parameters, region), at(parameters, set.blocks));
                product.forward(cells, blocks, at_mut(gradients, region), Write::Set, scratch);
                if set.gradients == MixGradients::Both {
                    let blocks = at_mut(gradients, set.blocks);
                    product.backward_weight(cells, alpha, blocks, Write::Set, scratch);
                }
                if let Some(factors) = &mixer.factors {
                    factors.backward(parameters, gradients, region);
                }
            }
            _ => at_mut(gradients, set.blocks).copy_from_slice(cells),
        }
    }
}

/// Computes dL/dcell as the sum over all uses of a cell, in order.
fn gather(set: &MixSet, mixer: &Mixer, parameters: &[f32], gradients: &[f32], cells: &mut [f32]) {
    cells.par_chunks_mut(set.block.len()).enumerate().for_each(|(index, cell)| {
        cell.fill(0.0);
        for used in &set.uses[mixer.first_use[index]..mixer.first_use[index + 1]] {
            each_run(set.block, used, |from, to, len| {
                let (run, weights) = (cell[from..from + len].iter_mut(), &parameters[to..to + len]);
                let run = run.zip(gradients[to..to + len].iter().zip(weights));
                match set.weight_decay {
                    0.0 => run.for_each(|(c, (g, _))| *c += used.factor * g),
                    weight_decay => {
                        run.for_each(|(c, (g, w))| *c += used.factor * (g + weight_decay * w))
                    }
                }
            });
        }
    });
}

/// Calls `run` with (start in the template, start in the storage, length) for every contiguous run
/// of a tile.
#[inline]
fn each_run(block: Block, used: &MixUse, mut run: impl FnMut(usize, usize, usize)) {
    let [row, col] = used.at;
    let [rows, cols] = used.extent;
    for r in 0..rows {
        for p in 0..block.positions {
            let from = (r * block.positions + p) * block.cols;
            let to = ((row + r) * block.positions + p) * used.inputs + col;
            run(from, used.tensor.offset + to, cols);
        }
    }
}
