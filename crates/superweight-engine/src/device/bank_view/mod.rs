//! BankViews of a bank: tensors that are looked at in a flat array of trainable numbers, before [`crate::Mix`] makes weights of them.
//!
//! ```text
//! M[s, t] = bank[at + s·C' + t]        W[r, j] = Σ weight(r, s)·weight(j, t)·M[s, t]        W[r, i] *= row[r]·column[i]
//! ```
//!
//! M is a matrix of output channels times C' = inputs·positions columns in PyTorch's order (OIHW: positions are innermost), so
//! that a bank holds what it would hold there. W is M stretched to the tensor's shape (`views/axis.rs`), bilinearly where it is
//! larger and number by number where it is not. It is written OHWI, like all blocks and weights. A slice may be multiplied by
//! factors of its outputs and inputs, which are trained too (BatchEnsemble).
//!
//! BankViews may look at the same numbers, and do: that is how layers share them. Backward gathers the gradients of all views of a
//! number, in their order.

pub(crate) mod axis;

use super::buffer::Region;
use super::mix::Block;

/// A tensor looked at in a bank of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BankView {
    /// Where it is written: as many parameters as its shape has.
    pub tensor: Region,
    /// Shape of the tensor.
    pub shape: Block,
    /// First number in the bank.
    pub at: usize,
    /// Rows and columns that it is stretched from; those of its shape for a plain slice.
    pub from: [usize; 2],
    /// What a slice is multiplied by.
    pub factors: Option<RankOne>,
}

/// Factors of a slice: their product is a matrix of rank one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankOne {
    /// One for every row of the tensor.
    pub rows: Region,
    /// One for every column, all positions alike.
    pub cols: Region,
}

impl BankView {
    /// Numbers of the bank that it looks at.
    pub fn source_len(&self) -> usize {
        self.from[0] * self.source_row()
    }

    /// Whether it is a slice, not stretched.
    pub fn is_plain(&self) -> bool {
        self.from == [self.shape.rows, self.shape.cols]
    }

    /// Numbers of a row of the tensor.
    pub(crate) fn row(&self) -> usize {
        self.shape.positions * self.shape.cols
    }

    /// Numbers of a row that is looked at.
    pub(crate) fn source_row(&self) -> usize {
        self.from[1] * self.shape.positions
    }
}

/// A bank and what is looked at in it.
#[derive(Clone, Debug, PartialEq)]
pub struct BankViewSet {
    /// For errors.
    pub name: String,
    /// Its numbers.
    pub bank: Region,
    /// Gradients are added in their order.
    pub views: Vec<BankView>,
}

impl BankViewSet {
    /// Which views look at numbers of the bank from the first to before the second.
    pub(crate) fn touching(&self, [first, end]: [usize; 2]) -> impl Iterator<Item = usize> {
        let touches = move |view: &BankView| view.at < end && first < view.at + view.source_len();
        self.views.iter().enumerate().filter(move |(_, view)| touches(view)).map(|(index, _)| index)
    }
}
