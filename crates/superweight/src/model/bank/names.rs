//! Names of the bank's tensors in the engine's storage.

use superweight_plan::{ClusterId, LayerId, LayerKind, MemberId, SetId, SharingPlan};

/// Put before the names of a member's tensors.
pub fn scope(member: MemberId) -> String {
    format!("{member}.")
}

/// Name of a layer's weight in the engine's storage.
pub fn weight_name(plan: &SharingPlan, id: LayerId) -> String {
    let layer = plan.layer(id);
    scope(layer.member) + &layer.name
}

/// Name of a set's templates, `[K, rows, kernel positions, columns]`.
pub fn templates_name(set: SetId) -> String {
    format!("templates.{set}")
}

/// Name of the numbers that a cluster's templates are looked at in, where they are.
pub fn bank_name(cluster: ClusterId) -> String {
    format!("numbers.{cluster}")
}

/// Name of the factors that a set's template is multiplied by, where it is: of its outputs, then of its inputs.
pub fn factors_name(set: SetId) -> String {
    format!("factors.{set}")
}

/// Name of a set's patterns, `[cells, K]`: the cells of its SuperWeights, one after another.
pub fn patterns_name(set: SetId) -> String {
    format!("patterns.{set}")
}

/// Name of a set's coefficients, `[rows, K]`.
pub fn coefficients_name(set: SetId) -> String {
    format!("coefficients.{set}")
}

/// What kind of layers a set makes: those of a cluster are all of one. Numbers that templates are looked at in make all kinds, and
/// are as those of convolutions.
pub fn kind_of(plan: &SharingPlan, set: SetId) -> LayerKind {
    match plan.set(set) {
        set if set.view.is_some() => LayerKind::Conv,
        set => plan.layer(plan.clusters[set.cluster.0].layers[0]).kind,
    }
}

/// Where the rows lie that cells are mixed by, where these are made of patterns and coefficients.
pub(super) fn mixed_name(set: SetId) -> String {
    format!("mixed.{set}")
}
