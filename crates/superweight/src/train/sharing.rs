//! Decides what is shared: clusters after the last epoch of the search, coefficient groups after
//! epoch E of training.
//!
//! ```text
//! search, last epoch: Σ dL/dW ─► statistics ─► clusters ─► new plan, reinitialised ─► checkpoint
//! train, epoch E:     Σ dL/dα ─► statistics ─► groups ─► α copied, or reinitialised ─► checkpoint
//! ```
//!
//! Gradient sums exist within one epoch only. The checkpoint after it holds the decision. A kill
//! before that checkpoint repeats the epoch and decides the same; a kill after it decides nothing
//! twice. Sums in checkpoints would make each checkpoint as large as the networks.

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
    CoefficientGradientSums, Decision, RefineStatistics, SearchProbe, SoftmaxCoefficients,
    Statistics, decide_clusters, decide_groups,
};

/// Reads gradients during the epoch before a decision.
#[derive(Debug)]
pub(super) struct GradientProbe<D: Device> {
    /// First step of the epoch that it reads, counted from 1.
    pub from: u64,
    kind: ProbeKind<D>,
}

#[derive(Debug)]
enum ProbeKind<D: Device> {
    /// Reads nothing: α is trained through a softmax.
    Softmax,
    /// Sums dL/dW.
    Gradients(SearchProbe<D>),
    /// Sums dL/dα.
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
            ProbeKind::Gradients(probe) => {
                ensemble.gradients_of_subset(subset)?;
                probe.observe(ensemble);
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
    /// Gradient probe for the next epoch, if a decision follows it.
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

    /// Decides, if the epoch just completed was the last before a decision. Returns whether it did.
    pub(super) fn decide(
        &mut self,
        phase: &Phase,
        probe: Option<GradientProbe<D>>,
        observer: &mut dyn Observer,
    ) -> Result<bool, TrainError> {
        let refine_at = self.resolved.refine.as_ref().map(|refine| refine.epoch);
        let before = self.trainer.ensemble().plan().clone();
        let decision = match (phase.stage, probe.map(|probe| probe.kind)) {
            (Stage::Search, probe) if self.position.epoch == phase.epochs => {
                self.find_clusters(probe)?
            }
            (Stage::Train, Some(ProbeKind::Alpha(sums))) => self.find_groups(&before, &sums)?,
            (Stage::Train, _) if Some(self.position.epoch) == refine_at => {
                let shared = before.superweights.iter().flat_map(|superweight| &superweight.groups);
                let why = if shared.into_iter().all(|group| group.layers.len() < 2) {
                    "no two layers use the same coefficients"
                } else {
                    "the plan reserves no parameters for it (refine.reserve)"
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

    /// Ends the search: makes the plan from its statistics and moves to the first step of training.
    fn find_clusters(&mut self, probe: Option<ProbeKind<D>>) -> Result<Decision, TrainError> {
        let similarity = self.resolved.search.as_ref().expect("a phase of the recipe").similarity;
        let ensemble = self.trainer.parts_mut().0;
        let probe = match probe {
            Some(ProbeKind::Gradients(probe)) => probe,
            _ => SearchProbe::new(similarity, ensemble)?,
        };
        let search = probe.finish(ensemble)?;
        // Saved before the decision: if no plan fits, the user can try another threshold on it.
        let statistics = Statistics { search: Some(search.clone()), refine: None };
        statistics.save(self.folder.disk(), &self.folder.statistics())?;
        self.statistics = statistics;
        let decision = decide_clusters(&self.resolved, &search)?;
        self.reinitialize(&decision.plan)?;
        self.position = Position { phase: Stage::Train, epoch: 0, ..self.position };
        Ok(decision)
    }

    /// Whether all parameters are reinitialised: after a search, and with `refine.reinit` after a
    /// refinement that splits a group, if epochs remain.
    fn reinitializes(&self, stage: Stage, before: &SharingPlan, decision: &Decision) -> bool {
        let wanted = self.resolved.refine.as_ref().is_some_and(|refine| refine.reinit);
        let epochs_remain = self.position.epoch < self.resolved.train.epochs;
        stage == Stage::Search || wanted && epochs_remain && decision.plan != *before
    }

    /// Switches to a plan and initialises all parameters as at the start of training.
    fn reinitialize(&mut self, plan: &SharingPlan) -> Result<(), TrainError> {
        self.trainer.replan(&self.resolved, plan)?;
        let seed = Stage::Train.seed(self.resolved.seed);
        Ok(bank::initialize(plan, self.trainer.parts_mut().0.memory_mut(), seed)?)
    }

    /// Refines after epoch E: layers with different gradients for one α get an α of their own.
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

    /// Runs `body` with coefficients in place of their logits, where a search trains logits.
    pub(super) fn softened<T>(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<T, TrainError>,
    ) -> Result<T, TrainError> {
        let similarity = self.resolved.search.as_ref().map(|search| search.similarity);
        if self.position.phase != Stage::Search || similarity != Some(Similarity::Coefficient) {
            return body(self);
        }
        let softened = SoftmaxCoefficients::apply(self.trainer.parts_mut().0)?;
        let result = body(self);
        softened.restore(self.trainer.parts_mut().0)?;
        result
    }
}

/// Whether refinement can change anything.
fn can_split(plan: &SharingPlan) -> bool {
    plan.bill.reserved > 0
}

/// Statistics of a resumed run. Training does not need them: if they cannot be read, the reason is
/// returned beside empty statistics.
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
