//! Identity of a convolution: the key of its plan.

use std::fmt;

use crate::cuda::precision::Precision;
use crate::device::buffer::Write;
use crate::geometry::ConvGeometry;
use crate::graph::ops::activation::Activation;

/// Largest workspace of a plan in bytes. All plans share one workspace, whose size is that of the
/// largest.
pub(super) const WORKSPACE_LIMIT: usize = 256 << 20;

/// Which of the three tensors of a convolution is computed from the other two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    /// y from x and w.
    Forward,
    /// dx from dy and w.
    BackwardData,
    /// dw from x and dy.
    BackwardWeight,
}

/// A convolution in one direction: the key of its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Conv {
    pub(crate) geometry: ConvGeometry,
    pub(crate) direction: Direction,
    pub(crate) write: Write,
    pub(crate) precision: Precision,
    /// With `Some`, a bias is added and this activation applied; forward and `Set` only.
    pub(crate) epilogue: Option<Activation>,
}

impl Conv {
    /// Number of elements of x, w, y and the bias.
    pub(super) fn lens(&self) -> [usize; 4] {
        let g = &self.geometry;
        let bias = if self.epilogue.is_some() { g.out_channels } else { 0 };
        [g.input_len(), g.weight_len(), g.output_len(), bias]
    }

    /// Index of the written tensor among x, w, y.
    pub(super) fn written(&self) -> usize {
        match self.direction {
            Direction::Forward => 2,
            Direction::BackwardData => 0,
            Direction::BackwardWeight => 1,
        }
    }
}

/// Text used in the cache and in messages: `n128 160→160 32×32 k3×3 s1×1 p1×1 g1 forward set bf16`.
impl fmt::Display for Conv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let g = &self.geometry;
        let direction = match self.direction {
            Direction::Forward => "forward",
            Direction::BackwardData => "data",
            Direction::BackwardWeight => "weight",
        };
        let write = if self.write == Write::Add { "add" } else { "set" };
        let pair = |[a, b]: [usize; 2]| format!("{a}×{b}");
        write!(
            f,
            "n{} {}→{} {} k{} s{} p{} g{} {direction} {write}{} {}",
            g.batch,
            g.in_channels,
            g.out_channels,
            pair(g.input),
            pair(g.kernel),
            pair(g.stride),
            pair(g.padding),
            g.groups,
            match self.epilogue {
                None => "",
                Some(Activation::None) => " bias",
                Some(Activation::Relu) => " bias relu",
                Some(Activation::Relu6) => " bias relu6",
            },
            self.precision.name()
        )
    }
}
