//! Members, bank, optimizer and images on one device, with a training step and an evaluation step.
//!
//! ```text
//! train:    load batch ─► compose ─► members forward, backward ─► compose backward ─► update
//! evaluate: load batch ─► members forward
//! ```
//!
//! Steps that train the same subset of members share one recording (`model::member_schedule`
//! decides the subsets).
//!
//! Before a step the host sets the images and the learning rate. Then the device runs the whole
//! step, on a GPU from a recording. Metrics are summed on the device and read on request.

use std::collections::VecDeque;
use std::sync::Arc;

use superweight_engine::{Accumulator, Device, Error, ImageSample, Metrics, Sgd, SgdOptions};
use superweight_plan::{MemberId, SharingPlan};

use super::error::TrainError;
use super::weight_decay::weight_decay;
use crate::data::{Dataset, Split};
use crate::model::ensemble::{Ensemble, EnsembleOptions, EnsembleSubset, ParameterKind};
use crate::model::recording::RecordedWork;
use crate::recipe::Resolved;

/// Reads gradients before the optimizer uses them: search and refinement implement it.
pub trait GradientHook<D: Device> {
    /// Runs [`Ensemble::gradients_of_subset`] and reads the gradients.
    fn gradients(
        &mut self,
        ensemble: &mut Ensemble<D>,
        subset: Option<&EnsembleSubset<D>>,
    ) -> Result<(), Error>;

    /// Whether the hook works on the device only, so that the step can be recorded.
    fn stays_on_device(&self) -> bool {
        true
    }
}

/// An ensemble with its optimizer and images.
#[derive(Debug)]
pub struct Trainer<D: Device> {
    ensemble: Ensemble<D>,
    optimizer: Sgd<D>,
    /// Factor on the learning rate for every kind of parameter.
    lr_mults: [f32; ParameterKind::ALL.len()],
    images: [D::Images; 2],
    subsets: VecDeque<SubsetSteps<D>>,
    /// Metrics of every output; empty before the first epoch.
    sums: Vec<Sums<D>>,
    evaluate: [RecordedWork<D>; 2],
}

/// Steps that train one subset of the members, with their recordings.
#[derive(Debug)]
struct SubsetSteps<D: Device> {
    members: Vec<MemberId>,
    /// `None` for all members.
    subset: Option<EnsembleSubset<D>>,
    train: RecordedWork<D>,
    hooked: RecordedWork<D>,
}

/// Sums of one output over the steps of the current epoch.
#[derive(Debug)]
struct Sums<D: Device> {
    steps: u64,
    metrics: Accumulator<D>,
}

/// Subsets whose recordings are kept. Beyond that the oldest is dropped, and recorded again when it
/// comes up.
const MAX_SUBSETS: usize = 64;

impl<D: Device> Trainer<D> {
    /// Compiles, allocates and loads the images. Parameters are zero. A plan over its budget is
    /// refused.
    pub fn new(
        device: &D,
        resolved: &Resolved,
        plan: &SharingPlan,
        data: &Arc<Dataset>,
    ) -> Result<Self, TrainError> {
        let (ensemble, optimizer) = compile(device, resolved, plan)?;
        let (rows, heads) = (resolved.train.rows(), ensemble.heads());
        let load = |split| device.load_images(&data.image_set(split), rows * heads, heads);
        Ok(Self {
            images: [load(Split::Train)?, load(Split::Test)?],
            ensemble,
            optimizer,
            lr_mults: lr_mults(resolved),
            subsets: VecDeque::new(),
            sums: vec![],
            evaluate: [RecordedWork::New, RecordedWork::New],
        })
    }

    /// Switches to another plan of the same members. Parameters are zero again. The memory of both
    /// plans exists for a moment.
    pub fn replan(&mut self, resolved: &Resolved, plan: &SharingPlan) -> Result<(), TrainError> {
        let device = self.ensemble.memory().device().clone();
        let (ensemble, optimizer) = compile(&device, resolved, plan)?;
        self.sums.clear();
        let (old_ensemble, old_optimizer) = self.parts_mut();
        (*old_ensemble, *old_optimizer) = (ensemble, optimizer);
        Ok(())
    }

    /// Members and bank.
    pub fn ensemble(&self) -> &Ensemble<D> {
        &self.ensemble
    }

    /// The optimizer.
    pub fn optimizer(&self) -> &Sgd<D> {
        &self.optimizer
    }

    /// Ensemble and optimizer, to set parameters or switch to a refined plan. Drops all recordings.
    pub fn parts_mut(&mut self) -> (&mut Ensemble<D>, &mut Sgd<D>) {
        // The caller may change what a recording uses.
        self.subsets.clear();
        self.evaluate = [RecordedWork::New, RecordedWork::New];
        (&mut self.ensemble, &mut self.optimizer)
    }

    /// Clears the metrics of the last epoch, and recordings with a gradient hook.
    pub fn begin_epoch(&mut self) -> Result<(), Error> {
        if self.sums.is_empty() {
            let sums = |metrics| Sums { steps: 0, metrics };
            self.sums = self.ensemble.metric_sums()?.into_iter().map(sums).collect();
        }
        for sums in &mut self.sums {
            sums.steps = 0;
            sums.metrics.clear();
        }
        self.subsets.iter_mut().for_each(|subset| subset.hooked = RecordedWork::New);
        Ok(())
    }

    /// Trains `members` for one step on the images of `draws` with learning rate `lr`. All steps of
    /// an epoch use the same hook or none.
    pub fn train_step(
        &mut self,
        members: &[MemberId],
        draws: &[ImageSample],
        lr: f32,
        hook: Option<&mut dyn GradientHook<D>>,
    ) -> Result<(), Error> {
        let device = self.ensemble.memory().device().clone();
        device.set_samples(&mut self.images[Split::Train as usize], draws);
        self.optimizer.set_lrs(&self.lr_mults.map(|mult| mult * lr))?;
        let index = self.steps_of(members)?;
        let Self { ensemble, optimizer, images, subsets, sums, .. } = self;
        let SubsetSteps { subset, train, hooked, .. } = &mut subsets[index];
        let subset = subset.as_ref();
        let outputs: Vec<usize> =
            members.iter().flat_map(|&member| ensemble.outputs().of_member(member)).collect();
        outputs.iter().for_each(|&output| sums[output].steps += 1);
        let (recorded, mut hook) = match hook {
            Some(hook) => (hooked, Some(hook)),
            None => (train, None),
        };
        let plain = hook.as_ref().is_some_and(|hook| !hook.stays_on_device());
        let mut body = || {
            ensemble.load_batch(&images[Split::Train as usize])?;
            match &mut hook {
                Some(hook) => hook.gradients(ensemble, subset)?,
                None => ensemble.gradients_of_subset(subset)?,
            }
            ensemble.update_subset(optimizer, subset);
            outputs
                .iter()
                .for_each(|&output| ensemble.memory().accumulate(&mut sums[output].metrics));
            Ok(())
        };
        if plain { body() } else { recorded.run(&device, &mut body) }
    }

    /// Index of the steps that train these members; adds them if they are new.
    fn steps_of(&mut self, members: &[MemberId]) -> Result<usize, Error> {
        if let Some(known) = self.subsets.iter().position(|subset| subset.members == members) {
            return Ok(known);
        }
        let subset = match members.len() < self.ensemble.members() {
            true => Some(self.ensemble.subset(members, &self.optimizer)?),
            false => None,
        };
        if self.subsets.len() == MAX_SUBSETS {
            self.subsets.pop_front();
        }
        let (train, hooked) = (RecordedWork::New, RecordedWork::New);
        self.subsets.push_back(SubsetSteps { members: members.to_vec(), subset, train, hooked });
        Ok(self.subsets.len() - 1)
    }

    /// Metrics of every output, summed since [`Trainer::begin_epoch`]. Waits for the device.
    pub fn metrics(&self) -> Result<Vec<Metrics>, Error> {
        self.ensemble.memory().finish()?;
        let of = |sums: &Sums<D>| match sums.metrics.read(0)[..] {
            [loss, top1, top5, rows] => Metrics { loss, top1, top5, rows },
            _ => unreachable!("a loss has four metrics"),
        };
        Ok(self.sums.iter().map(of).collect())
    }

    /// Steps that trained each output since [`Trainer::begin_epoch`].
    pub fn steps(&self) -> Vec<u64> {
        self.sums.iter().map(|sums| sums.steps).collect()
    }

    /// Composes the weights that [`Trainer::evaluate_step`] reads.
    pub fn compose(&mut self) -> Result<(), Error> {
        self.ensemble.compose()
    }

    /// Adds the k-th batch (from 1) of a pass to batch norm's statistics, with the weights that
    /// were composed last.
    pub fn recalibrate_step(&mut self, draws: &[ImageSample], k: u32) -> Result<(), Error> {
        let device = self.ensemble.memory().device().clone();
        let images = &mut self.images[Split::Train as usize];
        device.set_samples(images, draws);
        self.ensemble.load_batch(images)?;
        self.ensemble.recalibrate(k)
    }

    /// Computes the logits of every member for these images of a split.
    pub fn evaluate_step(&mut self, split: Split, draws: &[ImageSample]) -> Result<(), Error> {
        let device = self.ensemble.memory().device().clone();
        let Self { ensemble, images, evaluate, .. } = self;
        let images = &mut images[split as usize];
        device.set_samples(images, draws);
        evaluate[split as usize].run(&device, &mut || {
            ensemble.load_batch(images)?;
            ensemble.evaluate()
        })
    }
}

/// Compiles members, bank and optimizer with the settings of the recipe. A plan over its budget is
/// refused.
fn compile<D: Device>(
    device: &D,
    resolved: &Resolved,
    plan: &SharingPlan,
) -> Result<(Ensemble<D>, Sgd<D>), TrainError> {
    let (total, budget) = (plan.bill.total(), plan.budget.unwrap_or(u64::MAX));
    if total > budget {
        return Err(TrainError::OverBudget { total, budget });
    }
    let train = &resolved.train;
    let options = EnsembleOptions {
        batch: train.rows(),
        bn_batch_size: train.bn_batch_size,
        training: true,
        recalibrated: train.swa_epochs > 0,
        smoothing: train.label_smoothing as f32,
        distillation: train.distillation,
        classifier_decay: weight_decay(resolved, ParameterKind::Classifier) as f32,
        folded: false,
        by_exit: false,
    };
    let ensemble = Ensemble::new(device, plan, &options)?;
    let sgd = SgdOptions { momentum: train.momentum as f32, nesterov: train.nesterov };
    let optimizer = ensemble.optimizer(sgd, |kind| weight_decay(resolved, kind) as f32)?;
    Ok((ensemble, optimizer))
}

/// Factor on the learning rate for every kind of parameter.
fn lr_mults(resolved: &Resolved) -> [f32; ParameterKind::ALL.len()] {
    ParameterKind::ALL.map(|kind| match kind {
        ParameterKind::Templates | ParameterKind::ClassifierTemplates => {
            resolved.train.template_lr_mult as f32
        }
        ParameterKind::Coefficients | ParameterKind::ClassifierCoefficients => {
            resolved.train.coefficient_lr_mult as f32
        }
        _ => 1.0,
    })
}
