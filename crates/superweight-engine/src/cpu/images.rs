//! Batches drawn from images in memory, one task per image.

use rayon::prelude::*;

use crate::images::{ImageDraw, ImageSet};

/// Images and the batch that comes next. The bytes are the caller's, not copied.
#[derive(Debug)]
pub struct CpuImages {
    set: ImageSet,
    draws: Vec<ImageDraw>,
}

impl CpuImages {
    pub(super) fn new(set: &ImageSet, batch: usize) -> Self {
        Self { set: set.clone(), draws: Vec::with_capacity(batch) }
    }

    pub(super) fn set_draws(&mut self, draws: &[ImageDraw]) {
        self.set.will_need(draws);
        self.draws.clear();
        self.draws.extend_from_slice(draws);
    }

    pub(super) fn classes(&self, out: &mut [u32]) {
        let classes = self.draws.iter().map(|draw| self.set.classes[draw.image as usize]);
        out.iter_mut().zip(classes.chain(std::iter::repeat(0))).for_each(|(out, class)| *out = class);
    }

    pub(super) fn pixels(&self, out: &mut [f32]) {
        out.par_chunks_exact_mut(self.set.shape.len()).enumerate().for_each(|(row, out)| {
            match self.draws.get(row) {
                Some(draw) => self.set.render(draw, out),
                None => out.fill(0.0),
            }
        });
    }
}
