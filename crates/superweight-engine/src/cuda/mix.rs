//! Mixing on the GPU: tables of all sets, uses and pieces of work, made once.
//!
//! A set with at most [`DIRECT`] blocks is mixed directly (nested tiling): its tensors are written straight from blocks
//! and coefficients. The others (grids of many cells and blocks) go through their cells, by matrix products. Either way one
//! launch writes the tensors of all sets, and one or two read their gradients: a launch per tensor would cost more than
//! the work.

use super::buffer::Allocation;
use super::context::Precision;
use super::error::CudaError;
use super::launch::{Grid, launch};
use super::products::{Filling, Products};
use super::{CudaDevice, Storages};
use crate::mix::{MixGradients, MixSet};
use crate::program::{Element, Space};

/// Blocks of a set that is mixed directly, at most; `MOST` in `kernels/mix.cu`.
const DIRECT: usize = 8;
/// Numbers of a piece of work; `PIECE` in `kernels/mix.cu`.
const PIECE: usize = 2048;

#[repr(C)]
#[derive(Clone, Copy)]
struct Use {
    tensor: u64,
    set: u32,
    cell: u32,
    inputs: u32,
    at: [u32; 2],
    extent: [u32; 2],
    narrow: u32,
    factor: f32,
    unused: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Set {
    blocks: u64,
    coefficients: u64,
    cells: u64,
    count: u32,
    positions: u32,
    cols: u32,
    len: u32,
    first_use: u32,
    direct: u32,
    both: u32,
    mixed: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Piece {
    of: u32,
    first: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Coefficient {
    at: u64,
    first: u64,
    stride: u32,
    count: u32,
}

/// Tables of all sets of a mix.
#[derive(Debug)]
pub struct Mixer {
    uses: Allocation,
    first_use: Allocation,
    sets: Allocation,
    cell_counts: Allocation,
    write: (Allocation, usize),
    gather: (Allocation, usize),
    direct: (Allocation, usize),
    partial_at: Allocation,
    coefficients: (Allocation, usize),
    products: Vec<Products>,
    /// Numbers of cells and filled operands in the scratch memory; after them partial sums (direct sets) or the products' workspace.
    cells: usize,
}

impl Mixer {
    pub(super) fn new(device: &CudaDevice, sets: &[MixSet]) -> Result<(Self, usize), CudaError> {
        let context = &device.context;
        let (mut uses, mut first_use, mut table, mut counts) = (vec![], vec![], vec![], vec![]);
        let (mut write, mut gather, mut direct, mut partial_at, mut coefficients) =
            (vec![], vec![], vec![], vec![], vec![]);
        let (mut products, mut cells, mut partials, mut workspace) = (vec![], 0u64, 0u64, 0usize);
        for (index, set) in sets.iter().enumerate() {
            let (len, count, set_cells) = (set.block.len(), set.count(), set.cells());
            let is_direct = set.coefficients.is_none() || count <= DIRECT;
            let both = set.gradients == MixGradients::Both;
            table.push(Set {
                blocks: set.blocks.offset as u64,
                coefficients: set.coefficients.map_or(0, |region| region.offset as u64),
                cells,
                count: count as u32,
                positions: set.block.positions as u32,
                cols: set.block.cols as u32,
                len: len as u32,
                first_use: first_use.len() as u32,
                direct: u32::from(is_direct),
                both: u32::from(both),
                mixed: u32::from(set.coefficients.is_some()),
            });
            counts.push(set_cells as u32);
            let start = uses.len();
            first_use.extend(
                (0..=set_cells)
                    .map(|cell| (start + set.uses.partition_point(|used| used.cell < cell)) as u32),
            );
            for used in &set.uses {
                let narrow = context.precision == Precision::Bf16 && used.tensor.element == Element::Weight;
                write.extend(pieces(uses.len(), len));
                uses.push(Use {
                    tensor: used.tensor.offset as u64,
                    set: index as u32,
                    cell: used.cell as u32,
                    inputs: used.inputs as u32,
                    at: used.at.map(|n| n as u32),
                    extent: used.extent.map(|n| n as u32),
                    narrow: u32::from(narrow),
                    factor: used.factor,
                    unused: 0,
                });
            }
            if is_direct {
                let first = partials;
                let of_set = pieces(index, len);
                let (pieces, stride) = (of_set.len(), set_cells * count);
                for piece in of_set {
                    direct.push(piece);
                    partial_at.push(partials);
                    partials += stride as u64;
                }
                let region = set.coefficients.into_iter().flat_map(|region| 0..region.len as u64);
                coefficients.extend(region.map(|i| Coefficient {
                    at: table[index].coefficients + i,
                    first: first + i,
                    stride: stride as u32,
                    count: pieces as u32,
                }));
            } else {
                let numbers = set_cells * len;
                gather.extend(
                    (0..numbers.div_ceil(PIECE)).map(|i| Piece { of: index as u32, first: i as u32 }),
                );
                let (set, scratch, bytes) = Products::new(context, set, cells, Filling::WherePays)?;
                workspace = workspace.max(bytes);
                products.push(set);
                cells += scratch as u64;
            }
        }
        let what = "the tables of composition";
        let pieces = |table: &[Piece]| Allocation::of(context, what, table).map(|a| (a, table.len()));
        let mixer = Self {
            uses: Allocation::of(context, what, &uses)?,
            first_use: Allocation::of(context, what, &first_use)?,
            sets: Allocation::of(context, what, &table)?,
            cell_counts: Allocation::of(context, what, &counts)?,
            write: pieces(&write)?,
            gather: pieces(&gather)?,
            direct: pieces(&direct)?,
            partial_at: Allocation::of(context, what, &partial_at)?,
            coefficients: (Allocation::of(context, what, &coefficients)?, coefficients.len()),
            products,
            cells: cells as usize,
        };
        Ok((mixer, 4 * cells as usize + workspace.max(4 * partials as usize)))
    }

    pub(super) fn mix(&self, device: &CudaDevice, storages: &Storages<CudaDevice>) {
        let parameters = storages[Space::Parameters as usize].base();
        let cells = storages[Space::Arena as usize].base().main;
        let workspace = cells + 4 * self.cells as u64;
        for set in &self.products {
            set.forward(device, parameters.main, cells, workspace);
        }
        let (pieces, count) = (self.write.0.pointer, self.write.1);
        // SAFETY: the tables were made of sets that `Mix::new` checked to lie inside their tensors, and the scratch memory has
        // the size that `new` gave.
        unsafe {
            launch!(
                device.kernels,
                "mix_forward",
                Grid::each(count),
                pieces,
                self.uses.pointer,
                self.sets.pointer,
                parameters.main,
                parameters.narrow,
                cells,
            );
        }
    }

    pub(super) fn backward(&self, device: &CudaDevice, storages: &Storages<CudaDevice>) {
        let parameters = storages[Space::Parameters as usize].base().main;
        let gradients = storages[Space::Gradients as usize].base();
        let cells = storages[Space::Arena as usize].base().main;
        let partials = cells + 4 * self.cells as u64;
        let (uses, first_use, sets) = (self.uses.pointer, self.first_use.pointer, self.sets.pointer);
        let counts = self.cell_counts.pointer;
        // SAFETY: as in `mix`.
        unsafe {
            launch!(
                device.kernels,
                "mix_backward",
                Grid::each(self.direct.1),
                self.direct.0.pointer,
                self.partial_at.pointer,
                uses,
                first_use,
                sets,
                counts,
                parameters,
                gradients.main,
                gradients.narrow,
                partials,
            );
            let warps = Grid::new([self.coefficients.1.div_ceil(8) as u32, 1, 1], [256, 1, 1]);
            let (table, count) = (self.coefficients.0.pointer, self.coefficients.1 as u32);
            launch!(device.kernels, "mix_coefficients", warps, table, count, partials, gradients.main);
            launch!(
                device.kernels,
                "mix_gather",
                Grid::each(self.gather.1),
                self.gather.0.pointer,
                uses,
                first_use,
                sets,
                counts,
                gradients.main,
                gradients.narrow,
                cells,
            );
        }
        for set in &self.products {
            set.backward(device, parameters, gradients.main, cells, partials);
        }
    }
}

fn pieces(of: usize, len: usize) -> Vec<Piece> {
    (0..len).step_by(PIECE).map(|first| Piece { of: of as u32, first: first as u32 }).collect()
}
