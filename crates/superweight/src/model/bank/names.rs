//! Names of parameter tensors in the engine's storage and in checkpoints.

use superweight_plan::{ClusterId, LayerId, LayerKind, MemberId, SetId, SharingPlan};

/// Prefix of the names of a member's tensors.
pub fn scope(member: MemberId) -> String {
    format!("{member}.")
}

/// Name of a layer's weight, composed or dense.
pub fn weight_name(plan: &SharingPlan, id: LayerId) -> String {
    let layer = plan.layer(id);
    scope(layer.member) + &layer.name
}

/// Name of a set's templates, `[K, output channels, kernel positions, input channels]`.
pub fn templates_name(set: SetId) -> String {
    format!("templates.{set}")
}

/// Name of the bank of a cluster, from which its templates are read.
///
/// The tensor is called `numbers.N` since the first checkpoints, which still load.
pub fn bank_name(cluster: ClusterId) -> String {
    format!("numbers.{cluster}")
}

/// Name of a set's rank-one factors: one per output channel, then one per input channel.
pub fn factors_name(set: SetId) -> String {
    format!("factors.{set}")
}

/// Name of a set's patterns, `[cells, K]`: the cells of all its SuperWeights in order.
pub fn patterns_name(set: SetId) -> String {
    format!("patterns.{set}")
}

/// Name of a set's coefficients, `[rows, K]`.
pub fn coefficients_name(set: SetId) -> String {
    format!("coefficients.{set}")
}

/// Kind of the layers that use a set. All layers of a cluster are of one kind, unless they read a
/// bank, which serves all kinds; such sets count as those of convolutions.
pub fn kind_of(plan: &SharingPlan, set: SetId) -> LayerKind {
    match plan.set(set) {
        set if set.view.is_some() => LayerKind::Conv,
        set => plan.layer(plan.clusters[set.cluster.0].layers[0]).kind,
    }
}

/// Name of the computed rows that mix a set's cells, with patterns: the products of patterns and
/// coefficients.
pub(super) fn mixed_name(set: SetId) -> String {
    format!("mixed.{set}")
}
