//! A network by itself, batch norm on the statistics of the batch: for numbers that have no running ones.

use superweight_engine::{Device, Error, LayoutBuilder, Memory, Program, Settings, oihw_to_ohwi};
use superweight_plan::arch::{Architecture, Tensor};

use super::metrics::{Scores, Tally, softmax};
use crate::data::{Images, Normalisation};
use crate::heads::{mixture, repeated};
use crate::infer::{InferError, normalise};
use crate::lower::{IMAGES, Lowering, lower};

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
    /// before do not count again.
    ///
    /// # Panics
    /// If there are fewer images than a batch.
    pub fn scores(&mut self, images: &Images, normalisation: &Normalisation) -> Result<Scores, InferError> {
        let Self { architecture, batch, .. } = *self;
        let Architecture { classes, heads, input: shape, .. } = *architecture;
        assert!(images.len() >= batch, "at least a batch of images");
        let len = images.pixels.len() / images.len();
        let (mut tally, mut seen, mut one) = (Tally::default(), 0, vec![0.0; classes]);
        let mut input = Vec::with_capacity(batch * len);
        while seen < images.len() {
            let first = seen.min(images.len() - batch);
            input.clear();
            normalise(&images.pixels[first * len..][..batch * len], normalisation, &mut input);
            match heads {
                1 => self.memory.set_input(IMAGES, &input)?,
                _ => self.memory.set_input(IMAGES, &repeated(&input, shape.channels, heads))?,
            }
            self.memory.run(&self.program)?;
            let logits = mixture(self.memory.output(&Lowering::default().logits())?, classes, heads);
            for image in seen..first + batch {
                softmax(&logits[(image - first) * classes..][..classes], &mut one);
                tally.add(&one, images.labels[image].into());
            }
            seen = first + batch;
        }
        Ok(tally.scores())
    }
}
