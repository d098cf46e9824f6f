//! Augmented image batches on the CPU. One task renders one row of the batch.

use rayon::prelude::*;

use crate::images::{ImageSample, ImageSet};

/// A data set and the samples of the next batch. The bytes are shared with the caller, not copied.
#[derive(Debug)]
pub struct CpuImages {
    set: ImageSet,
    draws: Vec<ImageSample>,
    /// Number of images per row of the batch.
    abreast: usize,
}

impl CpuImages {
    pub(super) fn new(set: &ImageSet, batch: usize, abreast: usize) -> Self {
        Self { set: set.clone(), draws: Vec::with_capacity(batch), abreast }
    }

    pub(super) fn set_samples(&mut self, draws: &[ImageSample]) {
        self.set.prefetch(draws);
        self.draws.clear();
        self.draws.extend_from_slice(draws);
    }

    pub(super) fn classes(&self, out: &mut [u32]) {
        let classes = self.draws.iter().map(|draw| self.set.classes[draw.image as usize]);
        out.iter_mut()
            .zip(classes.chain(std::iter::repeat(0)))
            .for_each(|(out, class)| *out = class);
    }

    pub(super) fn pixels(&self, out: &mut [f32]) {
        let len = self.set.shape.len();
        let render = |place: usize, out: &mut [f32]| match self.draws.get(place) {
            Some(draw) => self.set.render(draw, out),
            None => out.fill(0.0),
        };
        if self.abreast == 1 {
            return out
                .par_chunks_exact_mut(len)
                .enumerate()
                .for_each(|(row, out)| render(row, out));
        }
        let channels = self.set.shape.channels;
        let rows = out.par_chunks_exact_mut(len * self.abreast).enumerate();
        rows.for_each_init(
            || vec![0.0; len],
            |image, (row, out)| {
                for beside in 0..self.abreast {
                    render(row * self.abreast + beside, image);
                    let pixels = out
                        .chunks_exact_mut(channels * self.abreast)
                        .zip(image.chunks_exact(channels));
                    pixels.for_each(|(out, pixel)| {
                        out[beside * channels..][..channels].copy_from_slice(pixel)
                    });
                }
            },
        );
    }
}
