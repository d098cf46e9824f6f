//! Where a run decides what is shared: after the last epoch of the search, and after epoch E of training.
//!
//! ```text
//! search, last epoch: Σ dL/dW ─► statistics.safetensors ─► clusters ─► a new plan, every number drawn anew ─► checkpoint
//! train, epoch E:     Σ dL/dα ─► statistics.safetensors ─► groups   ─► the same numbers, α copied, or every number drawn anew ─► checkpoint
//! ```
//!
//! Sums live within one epoch, and the checkpoint after it holds what was decided, not what it was decided from: a kill
//! before it repeats the epoch and decides the same again, a kill after it never decides twice. The alternative, sums in
//! checkpoints, would make each of them as large as the networks.

use superweight_engine::{Device, Error};
use superweight_plan::SharingPlan;

use super::progress::{Decided, Observer, Progress};
use super::session::Session;
use super::trainer::GradientHook;
use super::weight_decay::weight_decay_groups;
use super::{Phase, Position, Stage, TrainError};
use crate::model::bank;
use crate::model::ensemble::{Ensemble, EnsembleSubset};
use crate::recipe::{SearchPhase, Similarity};
use crate::run::{Event, RunFolder};
use crate::search::{
    CoefficientGradientSums, Decision, RefineStatistics, SearchProbe, SoftmaxCoefficients, Statistics, decide_clusters,
    decide_groups,
};

/// Somebody who looks at the steps of an epoch.
#[derive(Debug)]
pub(super) struct GradientProbe<D: Device> {
    /// From this step of the epoch on, counted from 1.
    pub from: u64,
    kind: ProbeKind<D>,
}

#[derive(Debug)]
enum ProbeKind<D: Device> {
    /// At nothing: α is trained through a softmax.
    Softmax,
    /// At dL/dW.
    Gradients(SearchProbe<D>),
    /// At dL/dα.
    Alpha(CoefficientGradientSums<D>),
}

impl<D: Device> GradientHook<D> for GradientProbe<D> {
    fn gradients(
        &mut self,
        ensemble: &mut Ensemble<D>,
        subset: Option<&EnsembleSubset<D>>,
    ) -> Result<(), Error> {
        match &mut self.kind {
            ProbeKind::Softmax => {
                let softened = SoftmaxCoefficients::apply(ensemble)?;
                ensemble.gradients_of_subset(subset)?;
                softened.backward(ensemble)?;
                softened.restore(ensemble)
            }
            ProbeKind::Gradients(watch) => {
                ensemble.gradients_of_subset(subset)?;
                watch.observe(ensemble);
                Ok(())
            }
            ProbeKind::Alpha(sums) => {
                ensemble.gradients_of_subset(subset)?;
                sums.observe(ensemble.memory_mut())
            }
        }
    }

    fn stays_on_device(&self) -> bool {
        !matches!(self.kind, ProbeKind::Softmax)
    }
}

impl<D: Device> Session<D> {
    /// Who looks at the epoch that comes next.
    pub(super) fn gradient_probe(
        &self,
        phase: &Phase,
    ) -> Result<Option<GradientProbe<D>>, TrainError> {
        let (ensemble, next) = (self.trainer.ensemble(), self.position.epoch + 1);
        let kind = match (phase.stage, &self.resolved.search, &self.resolved.refine) {
            (Stage::Search, Some(SearchPhase { similarity: Similarity::Coefficient, .. }), _) => {
                ProbeKind::Softmax
            }
            (Stage::Search, Some(search), _)
                if search.similarity == Similarity::Gradient && next == phase.epochs =>
            {
                let from =
                    self.steps_per_epoch() - search.batches.unwrap_or(self.steps_per_epoch());
                let watch = SearchProbe::new(search.similarity, ensemble)?;
                return Ok(Some(GradientProbe {
                    from: from + 1,
                    kind: ProbeKind::Gradients(watch),
                }));
            }
            (Stage::Train, _, Some(refine))
                if next == refine.epoch && can_split(ensemble.plan()) =>
            {
                ProbeKind::Alpha(CoefficientGradientSums::new(ensemble.plan(), ensemble.memory())?)
            }
            _ => return Ok(None),
        };
        Ok(Some(GradientProbe { from: 1, kind }))
    }

    /// Decides, where the epoch that is over was the last before a decision.
    pub(super) fn decide(
        &mut self,
        phase: &Phase,
        probe: Option<GradientProbe<D>>,
        observer: &mut dyn Observer,
    ) -> Result<bool, TrainError> {
        let refine_at = self.resolved.refine.as_ref().map(|refine| refine.epoch);
        let before = self.trainer.ensemble().plan().clone();
        let decision = match (phase.stage, probe.map(|probe| probe.kind)) {
            (Stage::Search, at) if self.position.epoch == phase.epochs => self.find_clusters(at)?,
            (Stage::Train, Some(ProbeKind::Alpha(sums))) => self.find_groups(&before, &sums)?,
            (Stage::Train, _) if Some(self.position.epoch) == refine_at => {
                let shared = before.superweights.iter().flat_map(|superweight| &superweight.groups);
                let why = if shared.into_iter().all(|group| group.layers.len() < 2) {
                    "no two layers use the same coefficients"
                } else {
                    "the plan keeps no numbers for it (refine.reserve)"
                };
                self.warn(format!("nothing is refined: {why}"))?;
                self.show_warnings(observer);
                return Ok(false);
            }
            _ => return Ok(false),
        };
        let event = Box::new(decision.event(&before));
        self.log.add(if phase.stage == Stage::Search {
            Event::Search(event)
        } else {
            Event::Refine(event)
        })?;
        self.groups = weight_decay_groups(&self.resolved, self.trainer.ensemble());
        let reinit = self.reinitializes(phase.stage, &before, &decision);
        observer.on_progress(Progress::Decided(&Decided {
            stage: phase.stage,
            before,
            decision,
            reinit,
        }));
        Ok(true)
    }

    /// The end of the search: a plan from what was seen, and training at its first step.
    fn find_clusters(&mut self, at: Option<ProbeKind<D>>) -> Result<Decision, TrainError> {
        let similarity = self.resolved.search.as_ref().expect("a phase of the recipe").similarity;
        let ensemble = self.trainer.parts_mut().0;
        let watch = match at {
            Some(ProbeKind::Gradients(watch)) => watch,
            _ => SearchProbe::new(similarity, ensemble)?,
        };
        let search = watch.finish(ensemble)?;
        // Kept before anything is decided: where no plan fits, another threshold may be tried on it.
        let statistics = Statistics { search: Some(search.clone()), refine: None };
        statistics.save(self.folder.disk(), &self.folder.statistics())?;
        self.statistics = statistics;
        let decision = decide_clusters(&self.resolved, &search)?;
        self.reinitialize(&decision.plan)?;
        self.position = Position { phase: Stage::Train, epoch: 0, ..self.position };
        Ok(decision)
    }

    /// Whether nothing that was learned is kept: after a search, and after a refinement that is asked to and parts something, if
    /// there is an epoch left to learn in.
    fn reinitializes(&self, stage: Stage, before: &SharingPlan, decision: &Decision) -> bool {
        let asked = self.resolved.refine.as_ref().is_some_and(|refine| refine.reinit);
        let time = self.position.epoch < self.resolved.train.epochs;
        stage == Stage::Search || asked && time && decision.plan != *before
    }

    /// Every number drawn as training draws them.
    fn reinitialize(&mut self, plan: &SharingPlan) -> Result<(), TrainError> {
        self.trainer.replan(&self.resolved, plan)?;
        let seed = Stage::Train.seed(self.resolved.seed);
        Ok(bank::initialize(plan, self.trainer.parts_mut().0.memory_mut(), seed)?)
    }

    /// Epoch E: layers that ask different things of one α get α of their own.
    fn find_groups(
        &mut self,
        plan: &SharingPlan,
        sums: &CoefficientGradientSums<D>,
    ) -> Result<Decision, TrainError> {
        let refine = RefineStatistics { plan: plan.clone(), gradients: sums.read(plan) };
        self.statistics.refine = Some(refine.clone());
        self.statistics.save(self.folder.disk(), &self.folder.statistics())?;
        let decision = decide_groups(&self.resolved, &refine)?;
        let (total, budget) = (decision.plan.bill.total(), plan.budget.unwrap_or(u64::MAX));
        if total > budget {
            return Err(TrainError::OverBudget { total, budget });
        }
        if self.reinitializes(Stage::Train, plan, &decision) {
            self.reinitialize(&decision.plan)?;
        } else {
            let (ensemble, optimizer) = self.trainer.parts_mut();
            ensemble.refine(decision.plan.clone(), optimizer)?;
        }
        Ok(decision)
    }

    /// Evaluates with α in place of the logits, where a search trains those.
    pub(super) fn softened<T>(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<T, TrainError>,
    ) -> Result<T, TrainError> {
        let similarity = self.resolved.search.as_ref().map(|search| search.similarity);
        if self.position.phase != Stage::Search || similarity != Some(Similarity::Coefficient) {
            return body(self);
        }
        let softened = SoftmaxCoefficients::apply(self.trainer.parts_mut().0)?;
        let seen = body(self);
        softened.restore(self.trainer.parts_mut().0)?;
        seen
    }
}

/// Whether refinement can change anything.
fn can_split(plan: &SharingPlan) -> bool {
    plan.bill.reserved > 0
}

/// The statistics that a run has gathered when it is resumed. They are not needed to go on: where they cannot be read,
/// the reason is returned beside what is left.
pub(super) fn resumed_statistics(
    folder: &RunFolder,
    position: Position,
) -> (Statistics, Option<String>) {
    let path = folder.statistics();
    if position.phase == Stage::Search || !path.exists() {
        return (Statistics::default(), None);
    }
    match Statistics::load(&path) {
        Ok(statistics) => (statistics, None),
        Err(error) => (Statistics::default(), Some(format!("{}: {error}", path.display()))),
    }
}
