//! Evaluation of one network whose batch norms use the statistics of the batch, for weights that
//! have no running statistics.

use std::ops::ControlFlow;

use superweight_engine::{Device, Error, LayoutBuilder, Memory, Program, Settings, oihw_to_ohwi};
use superweight_plan::arch::{Architecture, Tensor};

use super::error::InferError;
use super::networks::normalize;
use crate::data::{Images, Normalization};
use crate::evaluate::{Scores, Tally};
use crate::model::lower::{IMAGES, Lowering, lower};
use crate::model::mimo::{log_mean_probability, repeated};
use crate::probability::softmax;

/// A network compiled for one batch size. Its parameters are set tensor by tensor.
pub(crate) struct ByBatch<'a, D: Device> {
    architecture: &'a Architecture,
    program: Program<D>,
    memory: Memory<D>,
    batch: usize,
}

impl<'a, D: Device> ByBatch<'a, D> {
    /// Compiles the network, with all parameters 0.
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

    /// Sets a tensor of the architecture, with its values in PyTorch's order.
    pub fn set(&mut self, tensor: &Tensor, values: &[f32]) -> Result<(), Error> {
        match tensor.shape[..] {
            [out, inp, kh, kw] => {
                self.memory.set_parameter(&tensor.name, &oihw_to_ohwi(values, [out, inp, kh, kw]))
            }
            _ => self.memory.set_parameter(&tensor.name, values),
        }
    }

    /// Scores of the network; of its last exit, if it has several. `go_on` is called before every
    /// batch and stops the evaluation, which then returns none.
    ///
    /// Every batch is full: the last one begins early enough, and images in it that an earlier
    /// batch contained do not count again. A logit that is not finite makes the NLL NaN.
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
        assert!(images.len() >= batch, "an evaluation needs at least a batch of images");
        let order = spread(images.len(), batch);
        let len = images.pixels.len() / images.len();
        let (mut tally, mut done, mut one) = (Tally::default(), 0, vec![0.0; classes]);
        let mut input = Vec::with_capacity(batch * len);
        let mut finite = true;
        let logits = Lowering::default().logits(architecture.exits.len() - 1);
        while done < images.len() {
            if go_on().is_break() {
                return Ok(None);
            }
            let begin = done.min(images.len() - batch);
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
            let logits = log_mean_probability(self.memory.output(&logits)?, classes, heads);
            finite &= logits.iter().all(|logit| logit.is_finite());
            for row in done - begin..batch {
                softmax(&logits[row * classes..][..classes], &mut one);
                tally.add(&one, images.labels[chosen[row]].into());
            }
            done = begin + batch;
        }
        let scores = tally.scores();
        Ok(Some(Scores { nll: if finite { scores.nll } else { f64::NAN }, ..scores }))
    }
}

/// The indices of all images, with neighbours in different batches. Folders of pictures are sorted
/// by class, and the statistics of a batch of one class would remove what distinguishes it.
fn spread(images: usize, batch: usize) -> Vec<usize> {
    let batches = images.div_ceil(batch);
    (0..batches).flat_map(|first| (first..images).step_by(batches)).collect()
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn every_batch_has_images_of_all_classes() {
        for (images, batch) in [(2000, 128), (1000, 100), (130, 128), (128, 128), (500, 7)] {
            let order = spread(images, batch);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..images), "{images} images once each");
            // Five classes in blocks, one after another.
            for chunk in order.chunks(batch).filter(|chunk| chunk.len() == batch) {
                let count =
                    |class| chunk.iter().filter(|&&image| image * 5 / images == class).count();
                let counts = [0, 1, 2, 3, 4].map(count);
                assert!(
                    counts.iter().all(|count| *count > 0 && count.abs_diff(batch / 5) <= 4),
                    "{images}/{batch}: {counts:?}"
                );
            }
        }
    }
}
