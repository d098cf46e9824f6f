//! The optimizer's parameter groups: one per kind of parameter.

use std::ops::Range;

use superweight_engine::{Device, Error, ParameterGroup, Sgd, SgdOptions};
use superweight_plan::{ClusterId, LayerId, LayerKind, SetId, VectorKind};

use super::members::Ensemble;
use super::parameters::ParameterKind;
use crate::model::bank::{
    self, bank_name, coefficients_name, factors_name, pattern_rows, patterns_name, scope,
    templates_name, weight_name,
};

impl<D: Device> Ensemble<D> {
    /// Returns an optimizer with one group per [`ParameterKind`], in the order of
    /// [`ParameterKind::ALL`].
    pub fn optimizer(
        &self,
        options: SgdOptions,
        weight_decay: impl Fn(ParameterKind) -> f32,
    ) -> Result<Sgd<D>, Error> {
        let group = |kind| {
            Ok(ParameterGroup { ranges: self.ranges(kind)?, weight_decay: weight_decay(kind) })
        };
        let groups = ParameterKind::ALL.into_iter().map(group).collect::<Result<_, Error>>()?;
        Sgd::new(self.memory(), options, groups)
    }

    /// Ranges of the parameters of a kind in the parameter storage. Composed weights are of no
    /// kind, because they are not trained.
    pub fn ranges(&self, kind: ParameterKind) -> Result<Vec<Range<usize>>, Error> {
        let plan = self.plan();
        let patterns = pattern_rows(plan);
        let mut names = vec![];
        for (i, set) in plan.template_sets.iter().enumerate() {
            let (of, mixed_by) = match bank::kind_of(plan, SetId(i)) {
                LayerKind::Conv => (ParameterKind::Templates, ParameterKind::Coefficients),
                LayerKind::Depthwise => (ParameterKind::Depthwise, ParameterKind::Coefficients),
                LayerKind::Linear => {
                    (ParameterKind::ClassifierTemplates, ParameterKind::ClassifierCoefficients)
                }
            };
            names.extend((of == kind && set.view.is_none()).then(|| templates_name(SetId(i))));
            names.extend((of == kind && patterns[i] > 0).then(|| patterns_name(SetId(i))));
            let mixed = kind == mixed_by && set.templates > 1;
            names.extend(mixed.then(|| coefficients_name(SetId(i))));
            let factors = kind == mixed_by && plan.factor_parameters(SetId(i)) > 0;
            names.extend(factors.then(|| factors_name(SetId(i))));
        }
        let banks = plan.clusters.iter().enumerate().filter(|(_, cluster)| cluster.bank.is_some());
        let banks = banks.filter(|_| kind == ParameterKind::Templates);
        names.extend(banks.map(|(i, _)| bank_name(ClusterId(i))));
        for (i, planned) in
            plan.layers.iter().enumerate().filter(|(_, planned)| planned.tiles.is_empty())
        {
            let of = match planned.layer.kind {
                LayerKind::Conv => ParameterKind::Convolutions,
                LayerKind::Depthwise => ParameterKind::Depthwise,
                LayerKind::Linear => ParameterKind::Classifier,
            };
            names.extend((of == kind).then(|| weight_name(plan, LayerId(i))));
        }
        for vector in &plan.vectors {
            let of = match vector.kind {
                VectorKind::NormScale | VectorKind::NormShift => ParameterKind::BatchNorm,
                VectorKind::Bias => ParameterKind::Classifier,
            };
            names.extend((of == kind).then(|| scope(vector.member) + &vector.name));
        }
        let range = |name: String| {
            let region = self.memory().layout().parameter(&name)?;
            Ok(region.offset..region.offset + region.len)
        };
        names.into_iter().map(range).collect()
    }
}
