//! Bank views on a GPU. One launch computes the tensors of all sets, one the gradients of all
//! banks. A precomputed list gives each thread block the few views, of about two hundred, that read
//! its bank elements.

use super::piece::Piece;
use crate::cuda::buffer::Allocation;
use crate::cuda::buffer::Storages;
use crate::cuda::gpu::Gpu;
use crate::cuda::launch::{Grid, THREADS, launch};
use crate::device::bank_view::axis::{Axes, Tap};
use crate::device::bank_view::{BankViewSet, RankOne};
use crate::device::buffer::Space;
use crate::error::CudaError;

/// A view as the kernels read it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct PlacedView {
    tensor: u64,
    source: u64,
    /// Offsets of its row and column factors, if any.
    factors: [u64; 2],
    len: u32,
    source_len: u32,
    positions: u32,
    cols: u32,
    source_row: u32,
    kind: u32,
    taps: [u32; 2],
    reach: [u32; 2],
}

/// Bank elements that one block processes, and the range of the list of views that read them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct BankPiece {
    first: u64,
    count: u32,
    views: [u32; 2],
    unused: u32,
}

/// A row of a view, or some of its columns, whose factors' gradients one block computes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    view: u32,
    first: u32,
    is_columns: u32,
}

/// Kinds of views in the kernels.
const STRETCHED: u32 = 0;
const SLICE: u32 = 1;
const FACTORS: u32 = 2;

/// Columns per [`Line`].
const COLUMNS: usize = 32;

/// Tables for the GPU.
#[derive(Default)]
struct Tables {
    views: Vec<PlacedView>,
    taps: Vec<Tap>,
    reaches: Vec<[u32; 2]>,
    tensors: Vec<Piece>,
    banks: Vec<BankPiece>,
    /// Lists of views of all pieces of banks.
    readers: Vec<u32>,
    lines: Vec<Line>,
}

impl Tables {
    fn new(sets: &[BankViewSet]) -> Self {
        let mut tables = Self::default();
        let (mut axes, mut starts) = (Axes::default(), vec![]);
        for set in sets {
            let (first, bank) = (tables.views.len(), set.bank);
            for view in &set.views {
                tables.tensors.extend(Piece::all(tables.views.len(), view.tensor.len));
                let ends = [[view.from[0], view.shape.rows], [view.source_row(), view.row()]];
                let [rows, columns] = match view.is_plain() {
                    true => [[0; 2]; 2],
                    false => ends.map(|ends| tables.axis(axes.index(ends), &axes, &mut starts)),
                };
                let (index, factors) = (tables.views.len() as u32, view.factors);
                if factors.is_some() {
                    let line = |is_columns| {
                        move |first| Line { view: index, first: first as u32, is_columns }
                    };
                    tables.lines.extend((0..view.shape.rows).map(line(0)));
                    tables.lines.extend((0..view.shape.cols).step_by(COLUMNS).map(line(1)));
                }
                let offsets = |of: RankOne| [of.rows, of.cols].map(|region| region.offset as u64);
                tables.views.push(PlacedView {
                    tensor: view.tensor.offset as u64,
                    source: (bank.offset + view.at) as u64,
                    factors: factors.map_or([0; 2], offsets),
                    len: view.tensor.len as u32,
                    source_len: view.source_len() as u32,
                    positions: view.shape.positions as u32,
                    cols: view.shape.cols as u32,
                    source_row: view.source_row() as u32,
                    kind: match view.is_plain() {
                        false => STRETCHED,
                        true if factors.is_none() => SLICE,
                        true => FACTORS,
                    },
                    taps: [rows[0], columns[0]],
                    reach: [rows[1], columns[1]],
                });
            }
            for start in (0..bank.len).step_by(THREADS as usize) {
                let end = (start + THREADS as usize).min(bank.len);
                let list = tables.readers.len() as u32;
                tables.readers.extend(set.touching([start, end]).map(|view| (first + view) as u32));
                tables.banks.push(BankPiece {
                    first: (bank.offset + start) as u64,
                    count: (end - start) as u32,
                    views: [list, tables.readers.len() as u32],
                    unused: 0,
                });
            }
        }
        tables
    }

    /// Offsets of the taps and reaches of an axis. `starts` holds the offsets of earlier axes.
    fn axis(&mut self, index: usize, axes: &Axes, starts: &mut Vec<[u32; 2]>) -> [u32; 2] {
        if index == starts.len() {
            starts.push([self.taps.len() as u32, self.reaches.len() as u32]);
            self.taps.extend_from_slice(&axes.all[index].taps);
            self.reaches.extend_from_slice(&axes.all[index].reach);
        }
        starts[index]
    }
}

/// Tables of all sets, on the GPU.
#[derive(Debug)]
pub struct Viewer {
    views: Allocation,
    taps: Allocation,
    reaches: Allocation,
    tensors: (Allocation, usize),
    banks: (Allocation, usize),
    readers: Allocation,
    lines: (Allocation, usize),
}

impl Viewer {
    pub(in crate::cuda) fn new(gpu: &Gpu, sets: &[BankViewSet]) -> Result<Self, CudaError> {
        let (context, what) = (&gpu.context, "the tables of views");
        let tables = Tables::new(sets);
        Ok(Self {
            views: Allocation::of(context, what, &tables.views)?,
            taps: Allocation::of(context, what, &tables.taps)?,
            reaches: Allocation::of(context, what, &tables.reaches)?,
            tensors: (Allocation::of(context, what, &tables.tensors)?, tables.tensors.len()),
            banks: (Allocation::of(context, what, &tables.banks)?, tables.banks.len()),
            readers: Allocation::of(context, what, &tables.readers)?,
            lines: (Allocation::of(context, what, &tables.lines)?, tables.lines.len()),
        })
    }

    /// Computes all tensors.
    pub(in crate::cuda) fn apply(&self, gpu: &Gpu, storages: &Storages) {
        let parameters = storages[Space::Parameters as usize].base().main;
        let (pieces, grid) = (self.tensors.0.pointer, Grid::each(self.tensors.1));
        let (views, taps) = (self.views.pointer, self.taps.pointer);
        // SAFETY: `BankViews::new` checked the sets of these tables, and `Memory::apply_views` that
        // the parameters contain them.
        unsafe { launch!(gpu.kernels, "views_forward", grid, pieces, views, taps, parameters) }
    }

    /// Computes the gradients of banks and factors.
    pub(in crate::cuda) fn backward(&self, gpu: &Gpu, storages: &Storages) {
        let [parameters, gradients] =
            [Space::Parameters, Space::Gradients].map(|space| storages[space as usize].base().main);
        // SAFETY: as in `apply`; gradients have the offsets of parameters.
        unsafe {
            launch!(
                gpu.kernels,
                "views_backward",
                Grid::each(self.banks.1),
                self.banks.0.pointer,
                self.readers.pointer,
                self.views.pointer,
                self.taps.pointer,
                self.reaches.pointer,
                parameters,
                gradients,
            );
            let grid = Grid::each(self.lines.1);
            let (lines, views) = (self.lines.0.pointer, self.views.pointer);
            launch!(gpu.kernels, "views_factors", grid, lines, views, parameters, gradients);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::bank_view::BankView;
    use crate::device::buffer::{Element, Region};
    use crate::device::mix::Block;

    fn region(offset: usize, len: usize) -> Region {
        Region { space: Space::Parameters, offset, len, element: Element::Float }
    }

    /// Two banks of 1,000 and 300 elements, with views of the first at 0, 250 and 900.
    fn sets() -> Vec<BankViewSet> {
        let shape = Block { rows: 10, positions: 1, cols: 10 };
        let view =
            |(at, from, to)| BankView { tensor: region(to, 100), shape, at, from, factors: None };
        let views =
            [(0, [10, 10], 2000), (250, [5, 4], 2100), (900, [10, 10], 2200), (260, [5, 4], 2300)];
        vec![
            BankViewSet {
                name: "a".into(),
                bank: region(0, 1000),
                views: views.map(view).to_vec(),
            },
            BankViewSet {
                name: "b".into(),
                bank: region(1024, 300),
                views: vec![view((280, [5, 4], 2400))],
            },
        ]
    }

    #[test]
    fn a_piece_of_a_bank_lists_the_views_that_read_it() {
        let tables = Tables::new(&sets());
        let piece = |piece: &BankPiece| {
            let [list, end] = piece.views.map(|n| n as usize);
            (piece.first, piece.count, tables.readers[list..end].to_vec())
        };
        let found: Vec<_> = tables.banks.iter().map(piece).collect();
        let expected = [
            (0, 256, vec![0, 1]),
            (256, 256, vec![1, 3]),
            (512, 256, vec![]),
            (768, 232, vec![2]),
            (1024, 256, vec![]),
            (1280, 44, vec![4]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn every_row_and_every_column_of_a_slice_is_in_one_line() {
        let mut sets = sets();
        let shape = Block { rows: 3, positions: 1, cols: 70 };
        let [rows, cols] = [(3000, 3), (3100, 70)].map(|(offset, len)| region(offset, len));
        let view =
            BankView { tensor: region(2500, 210), shape, at: 7, from: [3, 70], factors: None };
        sets[1].views.push(BankView { factors: Some(RankOne { rows, cols }), ..view });
        let tables = Tables::new(&sets);
        let line = |first, is_columns| Line { view: 5, first, is_columns };
        let [rows, columns] =
            [[0, 1, 2].map(|row| line(row, 0)), [0, 32, 64].map(|column| line(column, 1))];
        assert_eq!(tables.lines, [rows, columns].concat());
        let kinds: Vec<_> = tables.views.iter().map(|view| view.kind).collect();
        assert_eq!(kinds, [SLICE, STRETCHED, SLICE, STRETCHED, STRETCHED, FACTORS]);
        assert_eq!(tables.views[5].factors, [3000, 3100]);
    }

    #[test]
    fn views_with_equal_lengths_share_their_axes() {
        let tables = Tables::new(&sets());
        assert_eq!((tables.taps.len(), tables.reaches.len()), (20, 9));
        let axes = |index: usize| (tables.views[index].taps, tables.views[index].reach);
        assert_eq!(axes(1), ([0, 10], [0, 5]));
        assert_eq!((axes(3), axes(4)), (axes(1), axes(1)));
    }
}
