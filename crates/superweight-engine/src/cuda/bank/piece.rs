//! Pieces of work.

use crate::device::mix::Block;

/// Numbers of a piece of work; `PIECE` in `kernels/mix.cuh`.
pub(super) const PIECE: usize = 2048;
/// Numbers of a thread, threads beside each other in a strip, its rows in a piece: as in `kernels/mix_strips.cu`.
pub(super) const EACH: usize = 8;
pub(super) const SIDE: usize = 16;
pub(super) const ROWS: usize = 96;

/// Which [`PIECE`] of the numbers of a set, or which piece of its strips; of a direct set, its numbers from `first` on.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::cuda) struct Piece {
    pub(super) of: u32,
    pub(super) first: u32,
}

impl Piece {
    /// All pieces of so many numbers.
    pub(in crate::cuda) fn all(of: usize, numbers: usize) -> impl Iterator<Item = Self> {
        Self::numbered(of, numbers.div_ceil(PIECE))
    }

    /// All pieces of the strips of so many cells or uses of a set.
    pub(super) fn strips(of: usize, block: Block, count: usize) -> impl Iterator<Item = Self> {
        let (cols, rows) = (block.cols, block.rows * block.positions);
        Self::numbered(of, count.div_ceil((SIDE / (cols / EACH)).max(1)) * rows.div_ceil(ROWS))
    }

    fn numbered(of: usize, count: usize) -> impl Iterator<Item = Self> {
        (0..count).map(move |i| Self { of: of as u32, first: i as u32 })
    }
}
