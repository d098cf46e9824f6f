//! What trains: members, bank, optimizer and images on one device, and the two steps they do.
//!
//! ```text
//! train:    draw images ─► compose ─► members forward, backward ─► compose backward ─► update ─► add up metrics
//! evaluate: draw images ─► members forward
//! ```
//!
//! Steps that train the same members have a recording and sums of their own (`turns.rs` says who is trained when).
//!
//! Before a step the host says which images and which rate; then the device is asked for all of it at once, which a GPU
//! does from a recording. Metrics are added up on the device and read when somebody looks.

use std::sync::Arc;

use superweight_engine::{Accumulator, Device, Error, ImageDraw, Metrics, Sgd, SgdOptions};
use superweight_plan::{MemberId, SharingPlan};

use super::TrainError;
use crate::data::{Dataset, Part};
use crate::ensemble::{Ensemble, EnsembleOptions, ParameterKind};
use crate::recipe::Resolved;
use crate::replay::Replayed;

/// Somebody who looks at gradients before they are used: search and refinement.
pub trait Watch<D: Device> {
    /// Does the backward pass of these members ([`Ensemble::gradients_of`]) and looks at it.
    fn gradients(&mut self, ensemble: &mut Ensemble<D>, members: &[MemberId]) -> Result<(), Error>;

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
    rates: [f32; ParameterKind::ALL.len()],
    images: [D::Images; 2],
    turns: Vec<Turn<D>>,
    evaluate: [Replayed<D>; 2],
}

/// Steps that train the same members.
#[derive(Debug)]
struct Turn<D: Device> {
    members: Vec<MemberId>,
    /// Since the epoch began.
    steps: u64,
    metrics: Accumulator<D>,
    train: Replayed<D>,
    watched: Replayed<D>,
}

impl<D: Device> Trainer<D> {
    /// Compiles, allocates, loads the images. A plan over its budget is refused. Numbers are zero.
    pub fn new(
        device: &D,
        resolved: &Resolved,
        plan: &SharingPlan,
        data: &Arc<Dataset>,
    ) -> Result<Self, TrainError> {
        let (ensemble, optimizer) = compile(device, resolved, plan)?;
        let load = |part| device.load_images(&data.image_set(part), resolved.train.batch);
        Ok(Self {
            images: [load(Part::Train)?, load(Part::Test)?],
            ensemble,
            optimizer,
            rates: rates(resolved),
            turns: vec![],
            evaluate: [Replayed::New, Replayed::New],
        })
    }

    /// Goes over to another plan of the same members; numbers are zero again. Both plans' memory is there for a moment.
    pub fn replan(&mut self, resolved: &Resolved, plan: &SharingPlan) -> Result<(), TrainError> {
        let device = self.ensemble.memory().device().clone();
        let (ensemble, optimizer) = compile(&device, resolved, plan)?;
        self.turns.clear();
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
        for turn in &mut self.turns {
            (turn.train, turn.watched) = (Replayed::New, Replayed::New);
        }
        self.evaluate = [Replayed::New, Replayed::New];
        (&mut self.ensemble, &mut self.optimizer)
    }

    /// Forgets the metrics of the last epoch, and who watched it.
    pub fn begin_epoch(&mut self) {
        for turn in &mut self.turns {
            turn.steps = 0;
            turn.metrics.clear();
            turn.watched = Replayed::New;
        }
    }

    /// One step of training of these members on these images at this rate. Within an epoch only one may watch.
    pub fn train_step(
        &mut self,
        members: &[MemberId],
        draws: &[ImageDraw],
        rate: f32,
        watch: Option<&mut dyn Watch<D>>,
    ) -> Result<(), Error> {
        let device = self.ensemble.memory().device().clone();
        device.set_draws(&mut self.images[Part::Train as usize], draws);
        self.optimizer.set_rates(&self.rates.map(|of| of * rate))?;
        let turn = self.turn(members)?;
        let Self { ensemble, optimizer, images, turns, .. } = self;
        let Turn { members, steps, metrics, train, watched } = &mut turns[turn];
        *steps += 1;
        let (replayed, mut watch) = match watch {
            Some(watch) => (watched, Some(watch)),
            None => (train, None),
        };
        let plain = watch.as_ref().is_some_and(|watch| !watch.stays_on_device());
        let mut body = || {
            ensemble.draw(&images[Part::Train as usize])?;
            match &mut watch {
                Some(watch) => watch.gradients(ensemble, members)?,
                None => ensemble.gradients_of(members)?,
            }
            ensemble.update(optimizer);
            ensemble.memory().accumulate(metrics);
            Ok(())
        };
        if plain { body() } else { replayed.run(&device, &mut body) }
    }

    /// The steps that train these members: which of all.
    fn turn(&mut self, members: &[MemberId]) -> Result<usize, Error> {
        if let Some(known) = self.turns.iter().position(|turn| turn.members == members) {
            return Ok(known);
        }
        let metrics = self.ensemble.metric_sums(members)?;
        let (train, watched) = (Replayed::New, Replayed::New);
        self.turns.push(Turn { members: members.to_vec(), steps: 0, metrics, train, watched });
        Ok(self.turns.len() - 1)
    }

    /// Every member's metrics, added up since [`Trainer::begin_epoch`]. Waits for the device.
    pub fn metrics(&self) -> Result<Vec<Metrics>, Error> {
        self.ensemble.memory().finish()?;
        let mut sums = vec![Metrics { loss: 0.0, top1: 0.0, top5: 0.0, rows: 0.0 }; self.ensemble.members()];
        for turn in &self.turns {
            for (place, member) in turn.members.iter().enumerate() {
                let [loss, top1, top5, rows] = turn.metrics.read(place)[..] else {
                    unreachable!("a loss has four metrics")
                };
                let sum = &mut sums[member.0];
                sum.loss += loss;
                sum.top1 += top1;
                sum.top5 += top5;
                sum.rows += rows;
            }
        }
        Ok(sums)
    }

    /// How many steps have trained a member since [`Trainer::begin_epoch`].
    pub fn steps(&self, member: MemberId) -> u64 {
        let of_member = self.turns.iter().filter(|turn| turn.members.contains(&member));
        of_member.map(|turn| turn.steps).sum()
    }

    /// Writes the weights that [`Trainer::evaluate_step`] reads.
    pub fn compose(&mut self) -> Result<(), Error> {
        self.ensemble.compose()
    }

    /// Batch norm's statistics of these training images, the k-th batch of a pass from 1: what was composed last.
    pub fn recalibrate_step(&mut self, draws: &[ImageDraw], k: u32) -> Result<(), Error> {
        let device = self.ensemble.memory().device().clone();
        let images = &mut self.images[Part::Train as usize];
        device.set_draws(images, draws);
        self.ensemble.draw(images)?;
        self.ensemble.recalibrate(k)
    }

    /// Every member's logits for these images of a part.
    pub fn evaluate_step(&mut self, part: Part, draws: &[ImageDraw]) -> Result<(), Error> {
        let device = self.ensemble.memory().device().clone();
        let Self { ensemble, images, evaluate, .. } = self;
        let images = &mut images[part as usize];
        device.set_draws(images, draws);
        evaluate[part as usize].run(&device, &mut || {
            ensemble.draw(images)?;
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
        batch: train.batch,
        bn_batch: train.bn_batch,
        training: true,
        recalibrated: train.average > 0,
        smoothing: train.label_smoothing as f32,
        distilled: train.distilled,
        classifier_decay: decay(resolved, ParameterKind::Classifier) as f32,
        folded: false,
    };
    let ensemble = Ensemble::new(device, plan, &options)?;
    let sgd = SgdOptions { momentum: train.momentum as f32, nesterov: train.nesterov };
    let optimizer = ensemble.optimizer(sgd, |kind| decay(resolved, kind) as f32)?;
    Ok((ensemble, optimizer))
}

/// Rates of all kinds over the schedule's.
fn rates(resolved: &Resolved) -> [f32; ParameterKind::ALL.len()] {
    ParameterKind::ALL.map(|kind| match kind {
        ParameterKind::Templates | ParameterKind::ClassifierTemplates => resolved.train.template_rate as f32,
        ParameterKind::Coefficients | ParameterKind::ClassifierCoefficients => {
            resolved.train.coefficient_rate as f32
        }
        _ => 1.0,
    })
}

/// λ of a kind.
pub(super) fn decay(resolved: &Resolved, kind: ParameterKind) -> f64 {
    let train = &resolved.train;
    match kind {
        // The weights they make are decayed: `EnsembleOptions::classifier_decay`.
        ParameterKind::ClassifierTemplates | ParameterKind::ClassifierCoefficients => 0.0,
        _ if !train.decay_on.contains(&kind) => 0.0,
        ParameterKind::Templates | ParameterKind::Coefficients => train.decay * train.shared_decay,
        _ => train.decay,
    }
}
