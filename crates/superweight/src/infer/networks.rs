//! The members of a run on a device, with composed and packed weights, for one batch size.
//!
//! The authors' code composes weights at every call. Here they are composed once, so that a member
//! costs as much as a plain network of its shape.

use superweight_engine::{Device, Error, Frozen, ohwi_to_oihw};
use superweight_plan::arch::{Op, TensorKind};
use superweight_plan::{MemberId, SharingPlan};

use super::error::InferError;
use crate::data::{Images, Normalization};
use crate::evaluate::Predictions;
use crate::model::bank::scope;
use crate::model::ensemble::Ensemble;
use crate::model::lower::IMAGES;
use crate::model::mimo::repeated;
use crate::model::recording::RecordedWork;
use crate::model::{OutputId, Outputs};
use crate::probability::MeanProbabilities;
use crate::run::{Tensor, Tensors};

/// All members with composed and packed weights.
///
/// A network of several exits is one program for all exits or, if built by
/// [`Trained::networks_by_exit`](super::Trained::networks_by_exit), one program per exit that
/// continues from the features of the exit before it.
#[derive(Debug)]
pub struct Networks<D: Device> {
    ensemble: Ensemble<D>,
    frozen: Vec<Frozen<D>>,
    /// A recording of each program, on devices where replaying one is faster.
    recorded: Vec<RecordedWork<D>>,
    /// Number of exit programs that have run on the current images.
    done: usize,
    batch: usize,
}

impl<D: Device> Networks<D> {
    /// Composes and packs the weights of an ensemble whose parameters are set.
    pub fn new(mut ensemble: Ensemble<D>, batch: usize) -> Result<Self, Error> {
        ensemble.compose()?;
        let frozen = ensemble.freeze()?;
        let recorded = frozen.iter().map(|_| RecordedWork::New).collect();
        Ok(Self { ensemble, frozen, recorded, done: 0, batch })
    }

    /// The members, or the exits of the only one.
    pub fn outputs(&self) -> &Outputs {
        self.ensemble.outputs()
    }

    /// Number of images in a batch.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// The sharing plan.
    pub fn plan(&self) -> &SharingPlan {
        self.ensemble.plan()
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.plan().members[0].classes
    }

    /// Number of values of one image: channels × height × width.
    pub fn image_len(&self) -> usize {
        let input = self.plan().members[0].input;
        input.channels * input.height * input.width
    }

    /// Sets the images of the next runs: normalized values `[image][row][column][channel]`. Fewer
    /// images than a batch fill the start of it.
    pub fn set_images(&mut self, images: &[f32]) -> Result<(), Error> {
        let (heads, channels) = (self.ensemble.heads(), self.plan().members[0].input.channels);
        self.done = 0;
        match heads {
            1 => self.ensemble.memory_mut().set_input(IMAGES, images),
            _ => self.ensemble.memory_mut().set_input(IMAGES, &repeated(images, channels, heads)),
        }
    }

    /// Logits of one output for the whole batch, `[image][class]`. An exit also runs the exits
    /// before it that have not run on these images; an exit that has run on them is only read.
    pub fn run(&mut self, output: OutputId) -> Result<Vec<f32>, Error> {
        let Self { ensemble, frozen, recorded, done, .. } = self;
        let device = ensemble.memory().device().clone();
        let last = ensemble.program_of(output);
        let first = if ensemble.outputs().nested() { *done } else { last };
        for program in first..=last {
            let mut body = || ensemble.run_frozen(program, &frozen[program]);
            recorded[program].run(&device, &mut body)?;
        }
        *done = (last + 1).max(*done);
        self.ensemble.logits(output)
    }

    /// Mean probabilities `[image][class]` of all outputs: what the ensemble predicts. `images` are
    /// normalized values of at most a batch, as for [`set_images`](Self::set_images).
    pub fn probabilities(&mut self, images: &[f32]) -> Result<Vec<f64>, Error> {
        self.set_images(images)?;
        let len = images.len() / self.image_len() * self.classes();
        let mut mean = MeanProbabilities::new(self.classes());
        for output in (0..self.outputs().count()).map(OutputId) {
            mean.add(&self.run(output)?[..len]);
        }
        Ok(mean.finish())
    }

    /// Logits of every output for all images, batch by batch. `progress` receives the number of
    /// images that are done.
    ///
    /// # Errors
    /// [`InferError::ImageSize`] if the images have another size than the members take.
    pub fn predict(
        &mut self,
        images: &Images,
        normalization: &Normalization,
        mut progress: impl FnMut(usize),
    ) -> Result<Predictions, InferError> {
        let (len, classes) = (self.image_len(), self.classes());
        let found = images.pixels.len() / images.len().max(1);
        if found != len {
            return Err(InferError::ImageSize { found, expected: len });
        }
        let mut logits = vec![Vec::with_capacity(images.len() * classes); self.outputs().count()];
        let mut batch = Vec::with_capacity(self.batch * len);
        for pixels in images.pixels.chunks(self.batch * len) {
            batch.clear();
            normalize(pixels, normalization, &mut batch);
            self.set_images(&batch)?;
            for (output, logits) in logits.iter_mut().enumerate() {
                logits.extend_from_slice(
                    &self.run(OutputId(output))?[..pixels.len() / len * classes],
                );
            }
            progress(logits[0].len() / classes);
        }
        Ok(Predictions::new(classes, images.labels.clone(), logits)?)
    }

    /// The state dict that PyTorch's module of a member's architecture would save: composed weights
    /// in OIHW, batch norms with their statistics, classifier.
    pub fn state_dict(&self, member: MemberId) -> Result<Tensors, Error> {
        let architecture =
            self.plan().members[member.0].build().expect("the members of a plan build");
        let memory = self.ensemble.memory();
        let mut metadata = std::collections::BTreeMap::from([
            ("architecture".to_owned(), architecture.name.to_string()),
            ("format".to_owned(), "pt".to_owned()),
        ]);
        if architecture.exits.len() > 1 {
            metadata.insert("exits".to_owned(), architecture.exits.len().to_string());
        }
        if architecture.heads > 1 {
            metadata.insert("heads".to_owned(), architecture.heads.to_string());
        }
        let mut tensors = Tensors::about(metadata);
        for tensor in &architecture.tensors {
            let values = memory.parameter(&(scope(member) + &tensor.name))?;
            let values = match (tensor.kind, &tensor.shape[..]) {
                (TensorKind::ConvWeight, &[out, inp, kh, kw]) => {
                    ohwi_to_oihw(&values, [out, inp, kh, kw])
                }
                _ => values,
            };
            tensors.insert(&tensor.name, Tensor::new(&tensor.shape, values));
        }
        for node in architecture.nodes.iter().filter(|node| matches!(node.op, Op::BatchNorm { .. }))
        {
            for statistic in ["running_mean", "running_var"] {
                let name = format!("{}.{statistic}", node.name);
                let values = memory.statistic(&(scope(member) + &name))?;
                tensors.insert(&name, Tensor::new(&[values.len()], values));
            }
            // PyTorch requires this entry for strict loading; with a momentum it never uses the
            // value.
            tensors.insert(
                &format!("{}.num_batches_tracked", node.name),
                Tensor::new(&[], vec![0i64]),
            );
        }
        Ok(tensors)
    }
}

/// Appends bytes `[…][channel]` to `to`, as normalized values.
pub fn normalize(pixels: &[u8], normalization: &Normalization, to: &mut Vec<f32>) {
    let channels = normalization.mean.len();
    let value = |(i, &byte): (usize, &u8)| {
        (f32::from(byte) - normalization.mean[i % channels]) / normalization.std[i % channels]
    };
    to.extend(pixels.iter().enumerate().map(value));
}
