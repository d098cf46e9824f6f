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

use super::buffer::Region;

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
    pub weight_decay: f32,
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

/// Who reads what is mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MixOutput {
    /// Programs and the backward pass alone: what a device has only for others (weights in 32 bits where its convolutions read
    /// them in 16) may stay as it was.
    KernelWeights,
    /// Whoever asks for a parameter too.
    AllCopies,
}
