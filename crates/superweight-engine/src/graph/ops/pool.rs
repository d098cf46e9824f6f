//! Pooling: maximum or average over windows, and the average over the whole image.
//!
//! As in PyTorch, padding is −∞ for the maximum (the first of equal maxima gets the gradient) and counts as zeros in
//! the average. The maximum keeps the position of each winner, 4 bytes per output (PyTorch: 8).

use crate::graph::ops::operation::Operation;

/// What a window becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// Its maximum.
    Max,
    /// Its average, zeros of the padding included.
    Average,
}

/// Options of a pooling window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pool2d {
    /// Maximum or average.
    pub kind: PoolKind,
    /// Window height and width.
    pub kernel: [usize; 2],
    /// Vertical and horizontal stride.
    pub stride: [usize; 2],
    /// Padding above and below, left and right; at most half of the window.
    pub padding: [usize; 2],
}

impl Pool2d {
    /// The maximum over square windows.
    pub fn max(kernel: usize, stride: usize, padding: usize) -> Self {
        Self {
            kind: PoolKind::Max,
            kernel: [kernel; 2],
            stride: [stride; 2],
            padding: [padding; 2],
        }
    }

    /// The average over square windows.
    pub fn average(kernel: usize, stride: usize, padding: usize) -> Self {
        Self { kind: PoolKind::Average, ..Self::max(kernel, stride, padding) }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) options: Pool2d,
}

#[derive(Clone, Debug)]
pub(crate) struct GlobalOp;

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "pool"
    }
}

impl Operation for GlobalOp {
    fn kind(&self) -> &'static str {
        "global pool"
    }
}
