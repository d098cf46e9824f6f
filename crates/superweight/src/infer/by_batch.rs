//! A network by itself, batch norm on the statistics of the batch: for numbers that have no running ones.

use std::ops::ControlFlow;

use superweight_engine::{Device, Error, LayoutBuilder, Memory, Program, Settings, oihw_to_ohwi};
use superweight_plan::arch::{Architecture, Tensor};

use crate::evaluate::metrics::{Scores, Tally};
use crate::probability::softmax;
use crate::data::{Images, Normalization};
use crate::model::mimo::{mixture, repeated};
use crate::infer::{InferError, normalize};
use crate::model::lower::{IMAGES, Lowering, lower};

/// The network, compiled for a batch; its numbers are set one tensor at a time.
pub(crate) struct ByBatch<'a, D: Device> {
    architecture: &'a Architecture,
    program: Program<D>,
    memory: Memory<D>,
    batch: usize,
}

impl<'a, D: Device> ByBatch<'a, D> {
    /// All numbers zero.
    pub fn new(device: &D, architecture: &'a Architecture, batch: usize) -> Result<Self, Error> {
        let settings = Settings::batch_statistics(batch);
        let graph = lower(architecture, &Lowering::default())?;
        let mut layout = LayoutBuilder::new();
        layout.graph(&graph, &settings)?;
        let layout = layout.finish(device);
        let program = Program::compile(device, &graph, &settings, &layout)?;
        let memory = Memory::new(device, layout, program.plan().arena_bytes)?;
        Ok(Self { architecture, program, memory, batch })
    }

    /// Sets a tensor of the architecture, in PyTorch's order of numbers.
    pub fn set(&mut self, tensor: &Tensor, values: &[f32]) -> Result<(), Error> {
        match tensor.shape[..] {
            [out, inp, kh, kw] => {
                self.memory.set_parameter(&tensor.name, &oihw_to_ohwi(values, [out, inp, kh, kw]))
            }
            _ => self.memory.set_parameter(&tensor.name, values),
        }
    }

    /// How good it is. Every image is seen in a whole batch: the last begins early enough, and images that were seen
    /// before do not count again. Of several exits the last is meant. A logit that is no number makes the loss none. Nothing where `go_on`, asked before every
    /// batch, says no.
    ///
    /// # Panics
    /// If there are fewer images than a batch.
    pub fn scores(
        &mut self,
        images: &Images,
        normalization: &Normalization,
        mut go_on: impl FnMut() -> ControlFlow<()>,
    ) -> Result<Option<Scores>, InferError> {
        let Self { architecture, batch, .. } = *self;
        let Architecture { classes, heads, input: shape, .. } = *architecture;
        assert!(images.len() >= batch, "at least a batch of images");
        let order = mixed(images.len(), batch);
        let len = images.pixels.len() / images.len();
        let (mut tally, mut seen, mut one) = (Tally::default(), 0, vec![0.0; classes]);
        let mut input = Vec::with_capacity(batch * len);
        let mut finite = true;
        let logits = Lowering::default().logits(architecture.exits.len() - 1);
        while seen < images.len() {
            if go_on().is_break() {
                return Ok(None);
            }
            let begin = seen.min(images.len() - batch);
            let chosen = &order[begin..begin + batch];
            input.clear();
            chosen.iter().for_each(|&image| {
                normalize(&images.pixels[image * len..][..len], normalization, &mut input);
            });
            match heads {
                1 => self.memory.set_input(IMAGES, &input)?,
                _ => self.memory.set_input(IMAGES, &repeated(&input, shape.channels, heads))?,
            }
            self.memory.run(&self.program)?;
            let logits = mixture(self.memory.output(&logits)?, classes, heads);
            finite &= logits.iter().all(|logit| logit.is_finite());
            for row in seen - begin..batch {
                softmax(&logits[row * classes..][..classes], &mut one);
                tally.add(&one, images.labels[chosen[row]].into());
            }
            seen = begin + batch;
        }
        let scores = tally.scores();
        Ok(Some(Scores { nll: if finite { scores.nll } else { f64::NAN }, ..scores }))
    }
}

/// Every image once, neighbours far apart: sets of pictures stand class by class, and the statistics of a batch of one
/// class would take away what it is told by.
fn mixed(images: usize, batch: usize) -> Vec<usize> {
    let batches = images.div_ceil(batch);
    (0..batches).flat_map(|first| (first..images).step_by(batches)).collect()
}

#[cfg(test)]
mod tests {
    use super::mixed;

    #[test]
    fn every_batch_has_images_of_all_classes() {
        for (images, batch) in [(2000, 128), (1000, 100), (130, 128), (128, 128), (500, 7)] {
            let order = mixed(images, batch);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..images), "{images} images once each");
            // Five classes, one after another.
            for seen in order.chunks(batch).filter(|seen| seen.len() == batch) {
                let count =
                    |class| seen.iter().filter(|&&image| image * 5 / images == class).count();
                let counts = [0, 1, 2, 3, 4].map(count);
                assert!(
                    counts.iter().all(|count| *count > 0 && count.abs_diff(batch / 5) <= 4),
                    "{images}/{batch}: {counts:?}"
                );
            }
        }
    }
}
