//! Opening a run whose training has written a checkpoint.
//!
//! ```text
//! run folder ─► newest checkpoint ─► plan + parameters ─► compose, fold, freeze ─► Networks
//! ```
//!
//! A checkpoint is read without the run's lock, so this works while the run is still being trained.

use std::path::{Path, PathBuf};

use superweight_engine::Device;
use superweight_plan::{MemberId, SharingPlan};

use super::error::InferError;
use super::networks::{Networks, normalize};
use crate::data::{Dataset, EvalSplit, Images, Normalization, Picture, ValidationSplit};
use crate::model::Outputs;
use crate::model::ensemble::{Ensemble, EnsembleOptions};
use crate::recipe::Resolved;
use crate::run::{Checkpoint, Loaded, OpenRun, Stamp};
use crate::train::{Position, RestoreError, Stage, restore_parameters};

/// A trained run: everything needed to build its members.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Trained {
    /// Folder of the run.
    pub run: PathBuf,
    /// Number and digest of the checkpoint.
    pub stamp: Stamp,
    /// The sharing plan of the checkpoint.
    pub plan: SharingPlan,
    /// Parameters and statistics.
    pub checkpoint: Checkpoint,
    /// The recipe with every default filled in.
    pub resolved: Resolved,
    /// Warnings about the checkpoint: a damaged newer one, or training that has not finished.
    pub warnings: Vec<String>,
}

impl Trained {
    /// Reads the newest complete checkpoint of a run.
    pub fn open(run: &Path) -> Result<Self, InferError> {
        let (resolved, plan, loaded) = OpenRun::open(run)?.into_trained()?;
        let Loaded { stamp, checkpoint, warnings } = loaded;
        let unfinished = unfinished(&resolved, &checkpoint, run);
        let warnings = warnings.iter().map(ToString::to_string).chain(unfinished).collect();
        Ok(Self { run: run.to_owned(), stamp, plan, checkpoint, resolved, warnings })
    }

    /// The id of a member.
    ///
    /// # Errors
    /// [`InferError::NoMember`] if the run has fewer members.
    pub fn member(&self, member: usize) -> Result<MemberId, InferError> {
        let members = self.plan.members.len();
        match member < members {
            true => Ok(MemberId(member)),
            false => {
                Err(InferError::NoMember { member, members, outputs: Outputs::of_plan(&self.plan) })
            }
        }
    }

    /// Means and standard deviations with which the members' images are normalized.
    pub fn normalization(&self) -> Result<Normalization, InferError> {
        Ok(self.resolved.data.description()?.normalization)
    }

    /// Names of the classes, in the order of the logits.
    pub fn class_names(&self) -> Result<Vec<String>, InferError> {
        Ok(self.resolved.data.description()?.classes)
    }

    /// The data set that the run was trained on, read from the folder of data sets.
    pub fn dataset(&self, folder: &Path) -> Result<Dataset, InferError> {
        Ok(self.resolved.data.open(folder)?)
    }

    /// The members of the run, or the exits of its only one.
    pub fn outputs(&self) -> Outputs {
        Outputs::of_plan(&self.plan)
    }

    /// The images that an evaluation on this split reads.
    ///
    /// # Errors
    /// [`InferError::NoValidation`] if the run trained on all training images.
    pub fn images(&self, data: &Dataset, split: EvalSplit) -> Result<Images, InferError> {
        match (split, self.resolved.data.validation) {
            (EvalSplit::Test, _) => Ok(data.test.clone()),
            (EvalSplit::Validation, 0) => Err(InferError::NoValidation { run: self.run.clone() }),
            (EvalSplit::Validation, count) => self.validation_images(data, count),
        }
    }

    /// `count` training images, as many of every class, chosen as the run chooses its validation
    /// images: fewer than the run has are a part of those.
    pub fn validation_images(&self, data: &Dataset, count: usize) -> Result<Images, InferError> {
        let (labels, seed) = (&data.train.labels, self.resolved.data.split_seed);
        let split = ValidationSplit::draw(labels, data.classes.len(), count, seed)?;
        let indices = || split.validation.iter().map(|&image| image as usize);
        let mut pixels = Vec::with_capacity(split.validation.len() * data.image_len());
        indices().for_each(|image| pixels.extend_from_slice(data.train.image(image)));
        Ok(Images { pixels: pixels.into(), labels: indices().map(|image| labels[image]).collect() })
    }

    /// A picture as the members take it: resized to the run's image size and normalized.
    pub fn input(&self, picture: &Picture) -> Result<Vec<f32>, InferError> {
        let mut input = vec![];
        normalize(&picture.fit(self.resolved.data.shape), &self.normalization()?, &mut input);
        Ok(input)
    }

    /// All members on a device, for this batch size. A network of several exits always runs to its
    /// end.
    pub fn networks<D: Device>(&self, device: &D, batch: usize) -> Result<Networks<D>, InferError> {
        self.build(device, EnsembleOptions::infer(batch))
    }

    /// All members on a device, with exits that run one after another and only as far as requested.
    /// They keep the features that the next exit reads, which takes more memory.
    pub fn networks_by_exit<D: Device>(
        &self,
        device: &D,
        batch: usize,
    ) -> Result<Networks<D>, InferError> {
        self.build(device, EnsembleOptions { by_exit: true, ..EnsembleOptions::infer(batch) })
    }

    fn build<D: Device>(
        &self,
        device: &D,
        options: EnsembleOptions,
    ) -> Result<Networks<D>, InferError> {
        let mut ensemble = Ensemble::new(device, &self.plan, &options)?;
        restore_parameters(&mut ensemble, &self.checkpoint).map_err(|error| match error {
            RestoreError::Engine(error) => InferError::Engine(error),
            RestoreError::Tensor(error) => InferError::OtherTensors {
                run: self.run.clone(),
                number: self.stamp.number,
                why: error.to_string(),
            },
        })?;
        Ok(Networks::new(ensemble, options.batch)?)
    }
}

/// A warning if the checkpoint is not the one that training ends with.
fn unfinished(resolved: &Resolved, checkpoint: &Checkpoint, run: &Path) -> Option<String> {
    let position: Position = serde_json::from_value(checkpoint.state.training.clone()).ok()?;
    let (epoch, epochs, run) = (position.epoch, resolved.train.epochs, run.display());
    let resume = format!("'swn train --resume {run}' continues it");
    match position.phase {
        Stage::Train if epoch >= epochs => None,
        Stage::Train if epoch > 0 => {
            let mean = if resolved.train.swa_epochs > 0 {
                ", without the stochastic weight average that training ends with"
            } else {
                ""
            };
            Some(format!(
                "training has not finished: this is epoch {epoch} of {epochs}{mean}; {resume}"
            ))
        }
        Stage::Search | Stage::Train => {
            Some(format!("training has not begun: this is a checkpoint of the search; {resume}"))
        }
    }
}
