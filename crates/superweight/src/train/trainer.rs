//! What trains: members, bank, optimizer and images on one device, and the two steps they do.
//!
//! ```text
//! train:    draw images ─► compose ─► members forward, backward ─► compose backward ─► update ─► add up metrics
//! evaluate: draw images ─► members forward
//! ```
//!
//! Steps that train the same members have a recording of their own (`member_schedule` says who is trained when).
//!
//! Before a step the host says which images and which rate; then the device is asked for all of it at once, which a GPU
//! does from a recording. Metrics are added up on the device and read when somebody looks.

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

/// Somebody who looks at gradients before they are used: search and refinement.
pub trait GradientHook<D: Device> {
    /// Does the backward pass of some members ([`Ensemble::gradients_of_subset`]) and looks at it.
    fn gradients(
        &mut self,
        ensemble: &mut Ensemble<D>,
        subset: Option<&EnsembleSubset<D>>,
    ) -> Result<(), Error>;

    /// Whether all of it happens on the device, so that it can be recorded.
    fn stays_on_device(&self) -> bool {
        true
    }
}

/// An ensemble being trained.
#[derive(Debug)]
pub struct Trainer<D: Device> {
    ensemble: Ensemble<D>,
    optimizer: Sgd<D>,
    /// What each group's rate is of the step's.
    lrs: [f32; ParameterKind::ALL.len()],
    images: [D::Images; 2],
    subsets: VecDeque<SubsetSteps<D>>,
    /// Of every output, once an epoch has begun.
    sums: Vec<Sums<D>>,
    evaluate: [RecordedWork<D>; 2],
}

/// Steps that train the same members.
#[derive(Debug)]
struct SubsetSteps<D: Device> {
    members: Vec<MemberId>,
    /// None for all members.
    subset: Option<EnsembleSubset<D>>,
    train: RecordedWork<D>,
    watched: RecordedWork<D>,
}

/// What one output's steps have added up to since the epoch began.
#[derive(Debug)]
struct Sums<D: Device> {
    steps: u64,
    metrics: Accumulator<D>,
}

/// Sets of members whose recordings are kept. Beyond it the one that is longest there makes room, and is recorded anew when it
/// comes up again.
const MAX_SUBSETS: usize = 64;

impl<D: Device> Trainer<D> {
    /// Compiles, allocates, loads the images. A plan over its budget is refused. Numbers are zero.
    pub fn new(
        device: &D,
        resolved: &Resolved,
        plan: &SharingPlan,
        data: &Arc<Dataset>,
    ) -> Result<Self, TrainError> {
        let (ensemble, optimizer) = compile(device, resolved, plan)?;
        let (rows, heads) = (resolved.train.rows(), ensemble.heads());
        let load = |part| device.load_images(&data.image_set(part), rows * heads, heads);
        Ok(Self {
            images: [load(Split::Train)?, load(Split::Test)?],
            ensemble,
            optimizer,
            lrs: lrs(resolved),
            subsets: VecDeque::new(),
            sums: vec![],
            evaluate: [RecordedWork::New, RecordedWork::New],
        })
    }

    /// Goes over to another plan of the same members; numbers are zero again. Both plans' memory is there for a moment.
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

    /// Both, to set their numbers or to go over to a refined plan.
    pub fn parts_mut(&mut self) -> (&mut Ensemble<D>, &mut Sgd<D>) {
        // Whatever is changed may be part of a recording.
        self.subsets.clear();
        self.evaluate = [RecordedWork::New, RecordedWork::New];
        (&mut self.ensemble, &mut self.optimizer)
    }

    /// Forgets the metrics of the last epoch, and who watched it.
    pub fn begin_epoch(&mut self) -> Result<(), Error> {
        if self.sums.is_empty() {
            let sums = |metrics| Sums { steps: 0, metrics };
            self.sums = self.ensemble.metric_sums()?.into_iter().map(sums).collect();
        }
        for sums in &mut self.sums {
            sums.steps = 0;
            sums.metrics.clear();
        }
        self.subsets.iter_mut().for_each(|subset| subset.watched = RecordedWork::New);
        Ok(())
    }

    /// One step of training of these members on these images at this rate. Within an epoch only one may watch.
    pub fn train_step(
        &mut self,
        members: &[MemberId],
        draws: &[ImageSample],
        lr: f32,
        watch: Option<&mut dyn GradientHook<D>>,
    ) -> Result<(), Error> {
        let device = self.ensemble.memory().device().clone();
        device.set_samples(&mut self.images[Split::Train as usize], draws);
        self.optimizer.set_lrs(&self.lrs.map(|of| of * lr))?;
        let index = self.steps_of(members)?;
        let Self { ensemble, optimizer, images, subsets, sums, .. } = self;
        let SubsetSteps { subset, train, watched, .. } = &mut subsets[index];
        let subset = subset.as_ref();
        let outputs: Vec<usize> =
            members.iter().flat_map(|&member| ensemble.outputs().of_member(member)).collect();
        outputs.iter().for_each(|&output| sums[output].steps += 1);
        let (replayed, mut watch) = match watch {
            Some(watch) => (watched, Some(watch)),
            None => (train, None),
        };
        let plain = watch.as_ref().is_some_and(|watch| !watch.stays_on_device());
        let mut body = || {
            ensemble.load_batch(&images[Split::Train as usize])?;
            match &mut watch {
                Some(watch) => watch.gradients(ensemble, subset)?,
                None => ensemble.gradients_of_subset(subset)?,
            }
            ensemble.update_subset(optimizer, subset);
            outputs
                .iter()
                .for_each(|&output| ensemble.memory().accumulate(&mut sums[output].metrics));
            Ok(())
        };
        if plain { body() } else { replayed.run(&device, &mut body) }
    }

    /// The steps that train these members: which of those that are known.
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
        let (train, watched) = (RecordedWork::New, RecordedWork::New);
        self.subsets.push_back(SubsetSteps { members: members.to_vec(), subset, train, watched });
        Ok(self.subsets.len() - 1)
    }

    /// Every output's metrics, added up since [`Trainer::begin_epoch`]. Waits for the device.
    pub fn metrics(&self) -> Result<Vec<Metrics>, Error> {
        self.ensemble.memory().finish()?;
        let of = |sums: &Sums<D>| match sums.metrics.read(0)[..] {
            [loss, top1, top5, rows] => Metrics { loss, top1, top5, rows },
            _ => unreachable!("a loss has four metrics"),
        };
        Ok(self.sums.iter().map(of).collect())
    }

    /// How many steps have trained each output since [`Trainer::begin_epoch`].
    pub fn steps(&self) -> Vec<u64> {
        self.sums.iter().map(|sums| sums.steps).collect()
    }

    /// Writes the weights that [`Trainer::evaluate_step`] reads.
    pub fn compose(&mut self) -> Result<(), Error> {
        self.ensemble.compose()
    }

    /// Batch norm's statistics of these training images, the k-th batch of a pass from 1: what was composed last.
    pub fn recalibrate_step(&mut self, draws: &[ImageSample], k: u32) -> Result<(), Error> {
        let device = self.ensemble.memory().device().clone();
        let images = &mut self.images[Split::Train as usize];
        device.set_samples(images, draws);
        self.ensemble.load_batch(images)?;
        self.ensemble.recalibrate(k)
    }

    /// Every member's logits for these images of a part.
    pub fn evaluate_step(&mut self, part: Split, draws: &[ImageSample]) -> Result<(), Error> {
        let device = self.ensemble.memory().device().clone();
        let Self { ensemble, images, evaluate, .. } = self;
        let images = &mut images[part as usize];
        device.set_samples(images, draws);
        evaluate[part as usize].run(&device, &mut || {
            ensemble.load_batch(images)?;
            ensemble.evaluate()
        })
    }
}

/// Members, bank and optimizer with the recipe's settings; a plan over its budget is refused.
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

/// Rates of all kinds over the schedule's.
fn lrs(resolved: &Resolved) -> [f32; ParameterKind::ALL.len()] {
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
