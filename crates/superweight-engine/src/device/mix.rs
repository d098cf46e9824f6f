//! Mixing: weights as linear combinations of templates, computed before a graph reads them.
//!
//! ```text
//! cell[r] = Σₖ α[r, k]·T[k]            weight[tile of use u] = factor[u]·cell[row of u], cropped
//! ```
//!
//! A [`MixSet`] has K templates (`blocks`) `T` of one shape and coefficients `α`. Each row of `α`
//! makes one *cell*, a combination of the templates (a SuperWeight, in the paper). A [`MixUse`]
//! copies a cell into a tile of a weight tensor; one cell may be used several times with different
//! factors. The backward pass gathers dL/dW into dL/dcell, then computes dL/dα = dcell·Tᵀ and dL/dT
//! = αᵀ·dcell. No element of a tensor may be written twice, which [`crate::Mix::new`] checks. With
//! weight decay λ, the backward pass uses dL/dW + λ·W instead of dL/dW. This penalises the norm of
//! the mixed weights rather than of the templates.
//!
//! Rows of α may be elementwise products ([`MixFactors`]): `α[r] = pattern[row of r] ∘ gain[row of
//! r]`. Then each use can have its own row, at the cost of K parameters for a gain that several
//! rows share.
//!
//! Templates are stored like weights, OHWI: `[rows, kernel positions, columns]`. A tile is copied
//! in runs of columns.

use super::buffer::Region;

/// Shape of a template or tensor: output channels, kernel positions, input channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Number of output channels.
    pub rows: usize,
    /// Kernel height times width.
    pub positions: usize,
    /// Number of input channels.
    pub cols: usize,
}

impl Block {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.rows * self.positions * self.cols
    }

    /// Returns true if it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Templates, coefficients, and the tiles that their combinations fill.
#[derive(Clone, Debug, PartialEq)]
pub struct MixSet {
    /// Name of the set in error messages.
    pub name: String,
    /// Shape of each template.
    pub block: Block,
    /// K templates, stored one after another.
    pub blocks: Region,
    /// Coefficients `[cells, K]`, or `None` for a single template that is itself the only cell.
    pub coefficients: Option<Region>,
    /// Factors of the coefficients, if the coefficients are products. Mixing then computes the
    /// coefficients.
    pub factors: Option<MixFactors>,
    /// Tiles to fill, sorted by cell.
    pub uses: Vec<MixUse>,
    /// Gradients that the backward pass computes.
    pub gradients: MixGradients,
    /// Weight decay λ of the mixed tensors.
    pub weight_decay: f32,
}

/// Coefficients as products: `α[r, k] = patterns[p, k]·gains[g, k]`, where `[p, g]` is `rows[r]`.
#[derive(Clone, Debug, PartialEq)]
pub struct MixFactors {
    /// Patterns, `[patterns, K]`.
    pub patterns: Region,
    /// Gains, `[gains, K]`.
    pub gains: Region,
    /// Pattern and gain of each row of coefficients, sorted by gain.
    pub rows: Vec<[u32; 2]>,
}

impl MixFactors {
    /// For each of `gains` gains, the first row of coefficients that uses it, followed by the
    /// number of rows.
    pub(crate) fn by_gain(&self, gains: usize) -> Vec<u32> {
        (0..=gains)
            .map(|gain| self.rows.partition_point(|row| (row[1] as usize) < gain) as u32)
            .collect()
    }

    /// Returns the rows of coefficients sorted by pattern, and the start of each of `patterns`
    /// patterns in that order, followed by the number of rows.
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

/// Gradients that the backward pass of a set computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MixGradients {
    /// Gradients of templates and coefficients.
    #[default]
    Both,
    /// Gradients of the coefficients only (or of their gains). Gradients of templates and patterns
    /// stay unchanged. If each use has its own cell, this gives the gradient that each use
    /// contributes to shared coefficients.
    Coefficients,
}

impl MixSet {
    /// Number of templates, K.
    pub fn count(&self) -> usize {
        self.blocks.len / self.block.len()
    }

    /// Number of cells.
    pub fn cells(&self) -> usize {
        self.coefficients.map_or(1, |region| region.len / self.count())
    }
}

/// One use of a cell: the tile of a tensor it is copied to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MixUse {
    /// Index of the cell.
    pub cell: usize,
    /// Weight tensor, `[outputs, positions, inputs]`.
    pub tensor: Region,
    /// Number of input channels of the tensor.
    pub inputs: usize,
    /// First output channel and first input channel of the tile.
    pub at: [usize; 2],
    /// Number of output and input channels of the tile. A tile at an edge may be smaller than the
    /// template.
    pub extent: [usize; 2],
    /// Factor that multiplies the cell.
    pub factor: f32,
}

/// Which copies of the mixed weights a call must update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MixOutput {
    /// Only the weights that programs and the backward pass read. On a GPU in bf16 mode this skips
    /// the f32 copy.
    KernelWeights,
    /// All copies, including the f32 weights that [`crate::Memory::parameter`] reads.
    AllCopies,
}
