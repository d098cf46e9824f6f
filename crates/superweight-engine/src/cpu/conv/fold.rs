//! Folding for few input channels, as in a network's first layer: a row of the kernel becomes one
//! tap.
//!
//! In NHWC the `kw · in` values that one kernel row reads are contiguous, in the image and in the
//! filter. So a 3×3 convolution of 3 channels equals a 3×1 convolution of 9 channels whose pixels
//! overlap. Only the left and right padding prevents this, hence a padded copy of the image, which
//! is small. The result is three taps of 9 lanes instead of nine taps of 3.

use rayon::prelude::*;

use crate::geometry::ConvGeometry;

/// A convolution to fold.
#[derive(Clone, Debug)]
pub(super) struct Fold {
    geometry: ConvGeometry,
}

impl Fold {
    /// Returns a fold if the convolution is dense and has at most 4 input channels. Otherwise most
    /// lanes are full without it.
    pub fn of(g: &ConvGeometry) -> Option<Self> {
        (g.groups == 1 && g.in_channels <= 4 && g.kernel[1] > 1).then_some(Self { geometry: *g })
    }

    /// The same convolution over the padded copy.
    pub fn padded(&self) -> ConvGeometry {
        let g = &self.geometry;
        let input = [g.input[0], g.input[1] + 2 * g.padding[1]];
        ConvGeometry { input, padding: [g.padding[0], 0], ..*g }
    }

    /// Number of channels of a folded tap.
    pub fn depth(&self) -> usize {
        self.geometry.kernel[1] * self.geometry.in_channels
    }

    /// Number of elements of the padded copy.
    pub fn len(&self) -> usize {
        self.padded().input_len()
    }

    /// Writes the padded copy.
    pub fn copy(&self, x: &[f32], out: &mut [f32]) {
        let g = &self.geometry;
        let [row, side] = [g.input[1], g.padding[1]].map(|n| n * g.in_channels);
        let rows = out.par_chunks_exact_mut(row + 2 * side).zip(x.par_chunks_exact(row));
        rows.with_min_len(64).for_each(|(out, x)| {
            out[..side].fill(0.0);
            out[side..side + row].copy_from_slice(x);
            out[side + row..].fill(0.0);
        });
    }
}
