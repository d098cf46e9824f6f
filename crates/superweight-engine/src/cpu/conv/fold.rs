//! Few input channels, as in a network's first layer: a row of the kernel becomes one tap.
//!
//! In NHWC the kernel's columns of a pixel lie next to each other, channels and all: `kw · in` numbers in a
//! row, in the image as in the filter. So a 3×3 convolution of 3 channels is a 3×1 convolution of 9, whose pixels
//! overlap. Only the left and right padding is in the way, hence one padded copy of the image, which is small.
//! Three taps of 9 lanes instead of nine taps of 3.

use rayon::prelude::*;

use crate::geometry::ConvGeometry;

/// A convolution to be folded.
#[derive(Clone, Debug)]
pub(super) struct Fold {
    geometry: ConvGeometry,
}

impl Fold {
    /// Whether folding applies, if the lanes would be nearly empty otherwise.
    pub fn of(g: &ConvGeometry) -> Option<Self> {
        (g.groups == 1 && g.in_channels <= 4 && g.kernel[1] > 1).then_some(Self { geometry: *g })
    }

    /// The same convolution over the padded copy.
    pub fn padded(&self) -> ConvGeometry {
        let g = &self.geometry;
        let input = [g.input[0], g.input[1] + 2 * g.padding[1]];
        ConvGeometry { input, padding: [g.padding[0], 0], ..*g }
    }

    /// Channels of a folded tap.
    pub fn depth(&self) -> usize {
        self.geometry.kernel[1] * self.geometry.in_channels
    }

    /// Numbers of the padded copy.
    pub fn len(&self) -> usize {
        self.padded().input_len()
    }

    /// The padded copy.
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
