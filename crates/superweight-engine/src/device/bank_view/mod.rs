//! Bank views: tensors computed from slices of a flat array of parameters (a *bank*), before
//! [`crate::Mix`] uses them.
//!
//! ```text
//! M[s, t] = bank[at + s·C' + t]
//! W[r, j] = Σ weight(r, s)·weight(j, t)·M[s, t]
//! W[r, i] *= row[r]·column[i]
//! ```
//!
//! M is a matrix with one row per output channel and C' = inputs·positions columns, in PyTorch's
//! OIHW order (positions are innermost), so a bank has the same contents as in PyTorch. W is M
//! interpolated bilinearly to the tensor's shape (`axis.rs`), or M itself if the shapes are equal.
//! W is stored in OHWI order like all weights. A view without interpolation may be multiplied by
//! trainable factors per output and input (BatchEnsemble).
//!
//! Several views may read the same elements of a bank; this is how layers share parameters. The
//! backward pass adds the gradients of all views of an element in the order of the views.

pub(crate) mod axis;

use super::buffer::Region;
use super::mix::Block;

/// A tensor computed from a slice of a bank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BankView {
    /// Where the tensor is written. Its length is that of `shape`.
    pub tensor: Region,
    /// Shape of the tensor.
    pub shape: Block,
    /// First element of the slice in the bank.
    pub at: usize,
    /// Rows and columns of the slice. A view without interpolation has those of `shape`.
    pub from: [usize; 2],
    /// Factors that multiply a view without interpolation.
    pub factors: Option<RankOne>,
}

/// Row and column factors whose product is a rank-one matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankOne {
    /// One factor per row of the tensor.
    pub rows: Region,
    /// One factor per column, the same for all kernel positions.
    pub cols: Region,
}

impl BankView {
    /// Number of bank elements that the view reads.
    pub fn source_len(&self) -> usize {
        self.from[0] * self.source_row()
    }

    /// Returns true if the view is a slice without interpolation.
    pub fn is_plain(&self) -> bool {
        self.from == [self.shape.rows, self.shape.cols]
    }

    /// Number of elements per row of the tensor.
    pub(crate) fn row(&self) -> usize {
        self.shape.positions * self.shape.cols
    }

    /// Number of elements per row of the slice.
    pub(crate) fn source_row(&self) -> usize {
        self.from[1] * self.shape.positions
    }
}

/// A bank and its views.
#[derive(Clone, Debug, PartialEq)]
pub struct BankViewSet {
    /// Name of the set in error messages.
    pub name: String,
    /// Elements of the bank.
    pub bank: Region,
    /// Views of the bank. Their gradients are added in this order.
    pub views: Vec<BankView>,
}

impl BankViewSet {
    /// Indices of the views that read any bank element in `first..end`.
    pub(crate) fn touching(&self, [first, end]: [usize; 2]) -> impl Iterator<Item = usize> {
        let touches = move |view: &BankView| view.at < end && first < view.at + view.source_len();
        self.views.iter().enumerate().filter(move |(_, view)| touches(view)).map(|(index, _)| index)
    }
}
