//! Pooling: maximum or average over windows, and average over the whole image.
//!
//! As in PyTorch, padding is −∞ for the maximum and zero for the average. Among equal maxima the
//! first gets the gradient. The maximum stores the position of each winner, in 4 bytes per output
//! (PyTorch: 8).

use crate::graph::ops::operation::Operation;

/// Function applied to each window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PoolKind {
    /// Maximum of the window.
    Max,
    /// Average of the window, including zeros of the padding.
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
    /// Padding above and below, and left and right; at most half of the window.
    pub padding: [usize; 2],
}

impl Pool2d {
    /// Maximum over square windows.
    pub fn max(kernel: usize, stride: usize, padding: usize) -> Self {
        Self {
            kind: PoolKind::Max,
            kernel: [kernel; 2],
            stride: [stride; 2],
            padding: [padding; 2],
        }
    }

    /// Average over square windows.
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
