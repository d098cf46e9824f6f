//! Weight decay of every kind of parameter.

use superweight_engine::Device;
use superweight_plan::{LayerKind, SetId};

use crate::model::bank;
use crate::model::ensemble::{Ensemble, ParameterKind};
use crate::recipe::Resolved;
use crate::run::WeightDecayGroup;

/// Weight decay λ of a kind of parameter.
pub(super) fn weight_decay(resolved: &Resolved, kind: ParameterKind) -> f64 {
    let train = &resolved.train;
    match kind {
        // The composed weights are decayed instead: `EnsembleOptions::classifier_decay`.
        ParameterKind::ClassifierTemplates | ParameterKind::ClassifierCoefficients => 0.0,
        _ if !train.weight_decay_on.contains(&kind) => 0.0,
        ParameterKind::Templates | ParameterKind::Coefficients => {
            train.weight_decay * train.shared_weight_decay_mult
        }
        _ => train.weight_decay,
    }
}

/// Every kind of parameter with its count and weight decay. Coefficients that refinement may add
/// are not counted.
pub(super) fn weight_decay_groups<D: Device>(
    resolved: &Resolved,
    ensemble: &Ensemble<D>,
) -> Vec<WeightDecayGroup> {
    let plan = ensemble.plan();
    let rows = bank::live_rows(plan);
    let coefficients = |linear: bool| -> u64 {
        let all = plan.template_sets.iter().enumerate().filter(|(_, set)| set.templates > 1);
        let of =
            all.filter(|(i, _)| (bank::kind_of(plan, SetId(*i)) == LayerKind::Linear) == linear);
        of.map(|(i, set)| (rows[i] * set.templates) as u64).sum()
    };
    let factors = || -> u64 {
        let sets = 0..plan.template_sets.len();
        sets.map(|i| plan.factor_parameters(SetId(i))).sum()
    };
    let laid_out = |kind| -> u64 {
        let ranges = ensemble.ranges(kind).expect("the ensemble was laid out by this plan");
        ranges.iter().map(|range| range.len() as u64).sum()
    };
    let group = |kind| {
        let (parameters, decayed_as) = match kind {
            ParameterKind::Coefficients => (coefficients(false) + factors(), kind),
            ParameterKind::ClassifierCoefficients => {
                (coefficients(true), ParameterKind::Classifier)
            }
            ParameterKind::ClassifierTemplates => (laid_out(kind), ParameterKind::Classifier),
            kind => (laid_out(kind), kind),
        };
        WeightDecayGroup { kind, parameters, weight_decay: weight_decay(resolved, decayed_as) }
    };
    ParameterKind::ALL.into_iter().map(group).filter(|group| group.parameters > 0).collect()
}
