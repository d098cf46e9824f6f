//! Views of banks on a GPU: one launch writes the tensors of all sets, one the gradients of all banks. Which views a block of
//! threads has to look through is a list made once: of two hundred views, a number is in the reach of a few.

use super::buffer::Allocation;
use super::error::CudaError;
use super::launch::{Grid, THREADS, launch};
use super::mix::Piece;
use super::{CudaDevice, Storages};
use crate::program::Space;
use crate::views::ViewSet;
use crate::views::axis::{Axes, Tap};

/// A view, as the kernels read it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Look {
    tensor: u64,
    source: u64,
    len: u32,
    source_len: u32,
    positions: u32,
    cols: u32,
    source_row: u32,
    plain: u32,
    taps: [u32; 2],
    reach: [u32; 2],
}

/// Numbers of a bank that are one block's work, and where the list of those who look at them begins and ends.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct BankPiece {
    first: u64,
    count: u32,
    looks: [u32; 2],
    unused: u32,
}

/// What the device gets.
#[derive(Default)]
struct Tables {
    looks: Vec<Look>,
    taps: Vec<Tap>,
    reaches: Vec<[u32; 2]>,
    tensors: Vec<Piece>,
    banks: Vec<BankPiece>,
    /// The lists of all pieces of banks.
    seen_by: Vec<u32>,
}

impl Tables {
    fn new(sets: &[ViewSet]) -> Self {
        let mut tables = Self::default();
        let (mut axes, mut starts) = (Axes::default(), vec![]);
        for set in sets {
            let (first, bank) = (tables.looks.len(), set.bank);
            for view in &set.views {
                tables.tensors.extend(Piece::all(tables.looks.len(), view.tensor.len));
                let ends = [[view.from[0], view.shape.rows], [view.source_row(), view.row()]];
                let [rows, columns] = match view.is_plain() {
                    true => [[0; 2]; 2],
                    false => ends.map(|ends| tables.axis(axes.index(ends), &axes, &mut starts)),
                };
                tables.looks.push(Look {
                    tensor: view.tensor.offset as u64,
                    source: (bank.offset + view.at) as u64,
                    len: view.tensor.len as u32,
                    source_len: view.source_len() as u32,
                    positions: view.shape.positions as u32,
                    cols: view.shape.cols as u32,
                    source_row: view.source_row() as u32,
                    plain: u32::from(view.is_plain()),
                    taps: [rows[0], columns[0]],
                    reach: [rows[1], columns[1]],
                });
            }
            for start in (0..bank.len).step_by(THREADS as usize) {
                let end = (start + THREADS as usize).min(bank.len);
                let list = tables.seen_by.len() as u32;
                tables.seen_by.extend(set.touching([start, end]).map(|view| (first + view) as u32));
                tables.banks.push(BankPiece {
                    first: (bank.offset + start) as u64,
                    count: (end - start) as u32,
                    looks: [list, tables.seen_by.len() as u32],
                    unused: 0,
                });
            }
        }
        tables
    }

    /// Where the taps and reaches of an axis begin; `starts` says it of those before.
    fn axis(&mut self, index: usize, axes: &Axes, starts: &mut Vec<[u32; 2]>) -> [u32; 2] {
        if index == starts.len() {
            starts.push([self.taps.len() as u32, self.reaches.len() as u32]);
            self.taps.extend_from_slice(&axes.all[index].taps);
            self.reaches.extend_from_slice(&axes.all[index].reach);
        }
        starts[index]
    }
}

/// Tables of all sets.
#[derive(Debug)]
pub struct Viewer {
    looks: Allocation,
    taps: Allocation,
    reaches: Allocation,
    tensors: (Allocation, usize),
    banks: (Allocation, usize),
    seen_by: Allocation,
}

impl Viewer {
    pub(super) fn new(device: &CudaDevice, sets: &[ViewSet]) -> Result<Self, CudaError> {
        let (context, what) = (&device.context, "the tables of views");
        let tables = Tables::new(sets);
        Ok(Self {
            looks: Allocation::of(context, what, &tables.looks)?,
            taps: Allocation::of(context, what, &tables.taps)?,
            reaches: Allocation::of(context, what, &tables.reaches)?,
            tensors: (Allocation::of(context, what, &tables.tensors)?, tables.tensors.len()),
            banks: (Allocation::of(context, what, &tables.banks)?, tables.banks.len()),
            seen_by: Allocation::of(context, what, &tables.seen_by)?,
        })
    }

    /// Writes the tensors.
    pub(super) fn view(&self, device: &CudaDevice, storages: &Storages<CudaDevice>) {
        let parameters = storages[Space::Parameters as usize].base().main;
        let (pieces, grid) = (self.tensors.0.pointer, Grid::each(self.tensors.1));
        let (looks, taps) = (self.looks.pointer, self.taps.pointer);
        // SAFETY: the tables were made of sets that `Views::new` checked, and `Memory::view` that the parameters hold them.
        unsafe { launch!(device.kernels, "views_forward", grid, pieces, looks, taps, parameters) }
    }

    /// Writes the gradients of banks.
    pub(super) fn backward(&self, device: &CudaDevice, storages: &Storages<CudaDevice>) {
        let gradients = storages[Space::Gradients as usize].base().main;
        // SAFETY: as in `view`; gradients lie like parameters.
        unsafe {
            launch!(
                device.kernels,
                "views_backward",
                Grid::each(self.banks.1),
                self.banks.0.pointer,
                self.seen_by.pointer,
                self.looks.pointer,
                self.taps.pointer,
                self.reaches.pointer,
                gradients,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::Block;
    use crate::program::{Element, Region};
    use crate::views::View;

    fn region(offset: usize, len: usize) -> Region {
        Region { space: Space::Parameters, offset, len, element: Element::Float }
    }

    /// Two banks of 1,000 and 300 numbers; views of the first at 0, 250 and 900 of it.
    fn sets() -> Vec<ViewSet> {
        let shape = Block { rows: 10, positions: 1, cols: 10 };
        let view = |(at, from, to)| View { tensor: region(to, 100), shape, at, from };
        let views = [(0, [10, 10], 2000), (250, [5, 4], 2100), (900, [10, 10], 2200), (260, [5, 4], 2300)];
        vec![
            ViewSet { name: "a".into(), bank: region(0, 1000), views: views.map(view).to_vec() },
            ViewSet { name: "b".into(), bank: region(1024, 300), views: vec![view((280, [5, 4], 2400))] },
        ]
    }

    #[test]
    fn a_piece_of_a_bank_lists_who_looks_at_it() {
        let tables = Tables::new(&sets());
        let piece = |piece: &BankPiece| {
            let [list, end] = piece.looks.map(|n| n as usize);
            (piece.first, piece.count, tables.seen_by[list..end].to_vec())
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
    fn views_of_one_stretch_share_their_axes() {
        let tables = Tables::new(&sets());
        assert_eq!((tables.taps.len(), tables.reaches.len()), (20, 9));
        let axes = |look: usize| (tables.looks[look].taps, tables.looks[look].reach);
        assert_eq!(axes(1), ([0, 10], [0, 5]));
        assert_eq!((axes(3), axes(4)), (axes(1), axes(1)));
    }
}
