//! Trained members, ready to be asked: weights composed once and packed, one batch size.
//!
//! ```text
//! run folder ─► newest whole checkpoint ─► plan + numbers ─► compose, fold ─► freeze ─► logits of any member
//! ```
//!
//! The authors' code regenerates weights at every call; here composing is paid once, so that a member costs what a plain
//! network of its shape costs. Works while the run is still being trained: a checkpoint is read without its lock.

use std::path::{Path, PathBuf};

use superweight_engine::{Device, Error, Frozen, ohwi_to_oihw};
use superweight_plan::arch::{Op, TensorKind};
use superweight_plan::{MemberId, SharingPlan};
use thiserror::Error;

use crate::model::bank::scope;
use crate::data::DataError;
use crate::data::{Dataset, Images, Normalization};
use crate::model::ensemble::{Ensemble, EnsembleOptions};
use crate::evaluate::{PredictionError, Predictions};
use crate::model::mimo::repeated;
use crate::model::lower::IMAGES;
use crate::recipe::{Recipe, RecipeError, Resolved};
use crate::model::recording::RecordedWork;
use crate::run::{Checkpoint, Loaded, RunError, Stamp, Tensor, Tensors, load_checkpoint};
use crate::train::{Position, RestoreError, Stage, restore_parameters};
use crate::model::{OutputId, Outputs};

/// Why members cannot be asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InferError {
    /// The folder or one of its files.
    #[error(transparent)]
    Run(#[from] RunError),
    /// `resolved.toml` says what it should not.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The images.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The device.
    #[error(transparent)]
    Engine(#[from] Error),
    /// What came out.
    #[error(transparent)]
    Predictions(#[from] PredictionError),
    /// Stopped before the first checkpoint.
    #[error("{} has no checkpoint yet: train at least one epoch ('swn train --resume {}')", run.display(), run.display())]
    NoCheckpoint {
        /// The run.
        run: PathBuf,
    },
    /// Its plan cannot be used.
    #[error("{}, checkpoint {number}: plan.json: {why}", run.display())]
    Plan {
        /// The run.
        run: PathBuf,
        /// Of the checkpoint.
        number: u64,
        /// What is wrong.
        why: String,
    },
    /// A checkpoint of another recipe.
    #[error("{}, checkpoint {number}: {why}: a file is of another run", run.display())]
    OtherRecipe {
        /// The run.
        run: PathBuf,
        /// Of the checkpoint.
        number: u64,
        /// What each of them says.
        why: String,
    },
    /// Tensors that do not fit the plan.
    #[error("{}, checkpoint {number}: its tensors are not of its plan: {why}", run.display())]
    OtherTensors {
        /// The run.
        run: PathBuf,
        /// Of the checkpoint.
        number: u64,
        /// The first that is not.
        why: String,
    },
    /// A member that is not there.
    #[error("there is no member {member}: the run has {}", who(outputs, *members))]
    NoMember {
        /// As asked.
        member: usize,
        /// How many there are.
        members: usize,
        /// Who answers.
        outputs: Outputs,
    },
    /// Images of another shape than the members take.
    #[error("images of {found} numbers; the members take {expected}")]
    ImageSize {
        /// Numbers of an image given.
        found: usize,
        /// Numbers of an image taken.
        expected: usize,
    },
}

/// Members by number, and what exits are not.
fn who(outputs: &Outputs, members: usize) -> String {
    match (members, outputs.nested()) {
        (1, true) => format!("one, 0, whose {outputs} are not members by themselves"),
        (1, false) => "one, 0".to_owned(),
        _ => format!("0 to {}", members - 1),
    }
}

/// What training left: everything needed to build the members again.
#[derive(Clone, Debug)]
pub struct Trained {
    /// Where it came from, for messages.
    pub run: PathBuf,
    /// Of which checkpoint.
    pub stamp: Stamp,
    /// What is shared.
    pub plan: SharingPlan,
    /// The numbers.
    pub checkpoint: Checkpoint,
    /// The recipe, every default filled in.
    pub resolved: Resolved,
    /// Said about the checkpoint when it was read.
    pub warnings: Vec<String>,
}

impl Trained {
    /// Reads a run's newest whole checkpoint.
    pub fn open(run: &Path) -> Result<Self, InferError> {
        let loaded = load_checkpoint(run)?;
        let Loaded { stamp, checkpoint, warnings } =
            loaded.ok_or_else(|| InferError::NoCheckpoint { run: run.to_owned() })?;
        let file = run.join("resolved.toml");
        let failed = |source| RunError::Io { doing: "read", path: file.clone(), source };
        let text = std::fs::read_to_string(&file).map_err(failed)?;
        let resolved =
            Recipe::parse(&file.display().to_string(), &text, &[] as &[&str])?.resolve()?;
        let plan = SharingPlan::from_json(&checkpoint.plan).map_err(|error| InferError::Plan {
            run: run.to_owned(),
            number: stamp.number,
            why: error.to_string(),
        })?;
        if let Some(why) = resolved.contradiction(&plan) {
            return Err(InferError::OtherRecipe { run: run.to_owned(), number: stamp.number, why });
        }
        let unfinished = unfinished(&resolved, &checkpoint, run);
        let warnings = warnings.iter().map(ToString::to_string).chain(unfinished).collect();
        Ok(Self { run: run.to_owned(), stamp, plan, checkpoint, resolved, warnings })
    }

    /// One of the members, if it is there.
    pub fn member(&self, member: usize) -> Result<MemberId, InferError> {
        let members = self.plan.members.len();
        match member < members {
            true => Ok(MemberId(member)),
            false => Err(InferError::NoMember { member, members, outputs: Outputs::of(&self.plan) }),
        }
    }

    /// Means and deviations that the members were trained with.
    pub fn normalization(&self) -> Result<Normalization, InferError> {
        Ok(self.resolved.data.description()?.normalization)
    }

    /// Names of the classes.
    pub fn class_names(&self) -> Result<Vec<String>, InferError> {
        Ok(self.resolved.data.description()?.classes)
    }

    /// The data set it was trained on, from the folder of data sets.
    pub fn dataset(&self, folder: &Path) -> Result<Dataset, InferError> {
        Ok(self.resolved.data.open(folder)?)
    }

    /// All members on a device. Those of several exits run to their end, whichever is asked.
    pub fn networks<D: Device>(&self, device: &D, batch: usize) -> Result<Networks<D>, InferError> {
        self.build(device, EnsembleOptions::infer(batch))
    }

    /// The same, with exits that run one after another, no further than is asked. They keep what the next one goes on from:
    /// that is more memory.
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

/// What there is to say of a checkpoint that training has not ended with.
fn unfinished(resolved: &Resolved, checkpoint: &Checkpoint, run: &Path) -> Option<String> {
    let position: Position = serde_json::from_value(checkpoint.state.training.clone()).ok()?;
    let (epoch, epochs, run) = (position.epoch, resolved.train.epochs, run.display());
    let goes_on = format!("'swn train --resume {run}' goes on");
    match position.phase {
        Stage::Train if epoch >= epochs => None,
        Stage::Train if epoch > 0 => {
            let mean = if resolved.train.swa_epochs > 0 {
                ", not the mean that is kept in the end"
            } else {
                ""
            };
            Some(format!("not finished, this is of epoch {epoch} of {epochs}{mean}: {goes_on}"))
        }
        Stage::Search | Stage::Train => {
            Some(format!("nothing is trained yet, this is of the search: {goes_on}"))
        }
    }
}

/// All members with their weights composed and packed. A network of several exits is one program for all of them or, built for
/// that ([`Trained::networks_by_exit`]), one for each that goes on from where the one before it has stopped.
#[derive(Debug)]
pub struct Networks<D: Device> {
    ensemble: Ensemble<D>,
    frozen: Vec<Frozen<D>>,
    /// A recording per program, on devices that gain by one.
    replayed: Vec<RecordedWork<D>>,
    /// Programs of exits that have seen these images.
    seen: usize,
    batch: usize,
}

impl<D: Device> Networks<D> {
    /// Composes and packs the weights of an ensemble whose numbers are set.
    pub fn new(mut ensemble: Ensemble<D>, batch: usize) -> Result<Self, Error> {
        ensemble.compose()?;
        let frozen = ensemble.freeze()?;
        let replayed = frozen.iter().map(|_| RecordedWork::New).collect();
        Ok(Self { ensemble, frozen, replayed, seen: 0, batch })
    }

    /// Who can be asked.
    pub fn outputs(&self) -> &Outputs {
        self.ensemble.outputs()
    }

    /// Images of a call.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// What is shared.
    pub fn plan(&self) -> &SharingPlan {
        self.ensemble.plan()
    }

    /// Classes told apart.
    pub fn classes(&self) -> usize {
        self.plan().members[0].classes
    }

    /// Numbers of an image.
    pub fn image_len(&self) -> usize {
        let input = self.plan().members[0].input;
        input.channels * input.height * input.width
    }

    /// The images that members see next: normalized, `[image][row][column][channel]`; fewer than a batch fill its start.
    pub fn set_images(&mut self, images: &[f32]) -> Result<(), Error> {
        let (heads, channels) = (self.ensemble.heads(), self.plan().members[0].input.channels);
        self.seen = 0;
        match heads {
            1 => self.ensemble.memory_mut().set_input(IMAGES, images),
            _ => self.ensemble.memory_mut().set_input(IMAGES, &repeated(images, channels, heads)),
        }
    }

    /// One output's logits for the whole batch. An exit that comes after some that have not seen these images takes their time,
    /// too; one that has seen them takes none.
    pub fn run(&mut self, output: OutputId) -> Result<Vec<f32>, Error> {
        let Self { ensemble, frozen, replayed, seen, .. } = self;
        let device = ensemble.memory().device().clone();
        let last = ensemble.program_of(output);
        let first = if ensemble.outputs().nested() { *seen } else { last };
        for program in first..=last {
            let mut body = || ensemble.run_frozen(program, &frozen[program]);
            replayed[program].run(&device, &mut body)?;
        }
        *seen = (last + 1).max(*seen);
        self.ensemble.logits(output)
    }

    /// Logits of every output for every image, in one pass. `progress` is told how many images are done.
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
                logits
                    .extend_from_slice(&self.run(OutputId(output))?[..pixels.len() / len * classes]);
            }
            progress(logits[0].len() / classes);
        }
        Ok(Predictions::new(classes, images.labels.clone(), logits)?)
    }

    /// A member as PyTorch's module of its architecture would save it: composed weights in OIHW, batch norms with their
    /// statistics, classifier.
    pub fn state_dict(&self, member: MemberId) -> Result<Tensors, Error> {
        let architecture =
            self.plan().members[member.0].build().expect("the members of a plan build");
        let memory = self.ensemble.memory();
        let mut about = std::collections::BTreeMap::from([
            ("architecture".to_owned(), architecture.name.to_string()),
            ("format".to_owned(), "pt".to_owned()),
        ]);
        if architecture.exits.len() > 1 {
            about.insert("exits".to_owned(), architecture.exits.len().to_string());
        }
        if architecture.heads > 1 {
            about.insert("heads".to_owned(), architecture.heads.to_string());
        }
        let mut tensors = Tensors::about(about);
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
            // PyTorch wants it when it loads strictly; with a momentum it is never used.
            tensors.insert(
                &format!("{}.num_batches_tracked", node.name),
                Tensor::new(&[], vec![0i64]),
            );
        }
        Ok(tensors)
    }
}

/// Bytes `[…][channel]` to what members take, appended.
pub fn normalize(pixels: &[u8], normalization: &Normalization, to: &mut Vec<f32>) {
    let channels = normalization.mean.len();
    let value = |(i, &byte): (usize, &u8)| {
        (f32::from(byte) - normalization.mean[i % channels]) / normalization.deviation[i % channels]
    };
    to.extend(pixels.iter().enumerate().map(value));
}
