//! Products that compute an activation from an activation and a weight (y or dx), with any
//! algorithm: pack the weight, then run.

use super::depthwise::Depthwise;
use super::fold::Fold;
use super::gather::Gather;
use super::winograd::Winograd;
use crate::device::buffer::Write;

/// A planned product.
#[derive(Clone, Debug)]
pub(super) enum Product {
    Gather(Gather),
    Folded(Fold, Gather),
    Depthwise(Depthwise),
    Winograd(Winograd),
}

impl Product {
    /// Length of the packed weight.
    pub fn packed_len(&self) -> usize {
        match self {
            Self::Gather(gather) | Self::Folded(_, gather) => gather.packed_len(),
            Self::Depthwise(depthwise) => depthwise.packed_len(),
            Self::Winograd(winograd) => winograd.packed_len(),
        }
    }

    /// Floats of scratch memory for packing and running.
    pub fn scratch(&self) -> usize {
        match self {
            Self::Gather(_) | Self::Depthwise(_) => 0,
            Self::Folded(fold, _) => fold.len(),
            Self::Winograd(winograd) => winograd.scratch(),
        }
    }

    pub fn pack(&self, weight: &[f32], packed: &mut [f32], scratch: &mut [f32]) {
        match self {
            Self::Gather(gather) | Self::Folded(_, gather) => gather.pack(weight, packed),
            Self::Depthwise(depthwise) => depthwise.pack(weight, packed),
            Self::Winograd(winograd) => winograd.pack(weight, packed, scratch),
        }
    }

    pub fn run(
        &self,
        src: &[f32],
        packed: &[f32],
        dst: &mut [f32],
        write: Write,
        scratch: &mut [f32],
    ) {
        match self {
            Self::Gather(gather) => gather.run(src, packed, dst, write),
            Self::Folded(fold, gather) => {
                let copy = &mut scratch[..fold.len()];
                fold.copy(src, copy);
                gather.run(copy, packed, dst, write);
            }
            Self::Depthwise(depthwise) => depthwise.run(src, packed, dst, write),
            Self::Winograd(winograd) => winograd.run(src, packed, dst, write, scratch),
        }
    }
}
