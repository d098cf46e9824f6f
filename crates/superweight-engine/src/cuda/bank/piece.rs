//! Pieces of work: one block of threads processes one piece.

use crate::device::mix::Block;

/// Elements per piece; `PIECE` in `kernels/mix.cuh`.
pub(super) const PIECE: usize = 2048;
/// Elements per thread, threads side by side in a strip, and rows of a strip per piece: as in
/// `kernels/mix_strips.cu`.
pub(super) const EACH: usize = 8;
pub(super) const SIDE: usize = 16;
pub(super) const ROWS: usize = 96;

/// Index of a [`PIECE`] of a set's elements, or of a piece of its strips. For a direct set, its
/// elements from `first` on.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::cuda) struct Piece {
    pub(super) of: u32,
    pub(super) first: u32,
}

impl Piece {
    /// All pieces of `len` elements.
    pub(in crate::cuda) fn all(of: usize, len: usize) -> impl Iterator<Item = Self> {
        Self::numbered(of, len.div_ceil(PIECE))
    }

    /// All pieces of the strips of `count` cells or uses of a set.
    pub(super) fn strips(of: usize, block: Block, count: usize) -> impl Iterator<Item = Self> {
        let (cols, rows) = (block.cols, block.rows * block.positions);
        Self::numbered(of, count.div_ceil((SIDE / (cols / EACH)).max(1)) * rows.div_ceil(ROWS))
    }

    fn numbered(of: usize, count: usize) -> impl Iterator<Item = Self> {
        (0..count).map(move |i| Self { of: of as u32, first: i as u32 })
    }
}
