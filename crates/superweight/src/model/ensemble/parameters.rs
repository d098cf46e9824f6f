//! Kinds of parameters, and the parameters and multiply-adds of each member.

use serde::{Deserialize, Serialize};
use superweight_plan::{ClusterId, Group, LayerId, MemberId, SetId, SharingPlan, SuperWeightId};

/// Kinds of parameters that may have different weight decays and learning rates.
///
/// Every parameter is of exactly one kind. Composed weights are of none, because they are not
/// trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ParameterKind {
    /// Shared templates of convolutions with their patterns, and banks.
    Templates,
    /// Coefficients α and factors of all convolutions, and of all layers that read a bank.
    Coefficients,
    /// Weights of dense convolutions, such as the stem.
    Convolutions,
    /// Weights of depthwise convolutions: dense weights, templates and patterns.
    Depthwise,
    /// Batch-norm scales and shifts.
    BatchNorm,
    /// Dense linear weights, and all biases.
    Classifier,
    /// Templates of linear weights with their patterns.
    ///
    /// Weight decay acts on the composed weights, as if they were dense, and reaches the templates
    /// through them. Decay of the factors would not hold the size of a product of three
    /// (`docs/decisions/0012`).
    ClassifierTemplates,
    /// Coefficients of linear weights.
    ClassifierCoefficients,
}

impl ParameterKind {
    /// All kinds, in the order of the optimizer's groups.
    pub const ALL: [Self; 8] = [
        Self::Templates,
        Self::Coefficients,
        Self::Convolutions,
        Self::Depthwise,
        Self::BatchNorm,
        Self::Classifier,
        Self::ClassifierTemplates,
        Self::ClassifierCoefficients,
    ];

    /// Name of the kind for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Templates => "templates",
            Self::Coefficients => "coefficients",
            Self::Convolutions => "convolutions",
            Self::Depthwise => "depthwise convolutions",
            Self::BatchNorm => "batch norm",
            Self::Classifier => "classifier",
            Self::ClassifierTemplates => "classifier's templates",
            Self::ClassifierCoefficients => "classifier's coefficients",
        }
    }
}

/// Members from the largest to the smallest, by multiply-adds per image. Equal members keep the
/// order of the plan.
pub fn by_size(plan: &SharingPlan) -> Vec<MemberId> {
    let mut members: Vec<MemberId> = (0..plan.members.len()).map(MemberId).collect();
    members.sort_by_cached_key(|&member| std::cmp::Reverse(multiply_adds(plan, member)));
    members
}

/// Multiply-adds of a member for one image.
pub(crate) fn multiply_adds(plan: &SharingPlan, member: MemberId) -> u64 {
    let architecture = plan.members[member.0].build().expect("the members of a plan build");
    architecture.counts().multiply_adds
}

/// Number of parameters that a member uses: its own, the templates and bank parameters it reads,
/// and the rows of coefficients and patterns it uses.
///
/// Members share parameters, so the sum over members is more than the plan has.
pub fn member_parameters(plan: &SharingPlan, member: MemberId) -> u64 {
    let of_member = |&id: &LayerId| plan.layer(id).member == member;
    let (mut sets, mut total) = (vec![false; plan.template_sets.len()], 0);
    for planned in plan.layers.iter().filter(|planned| planned.layer.member == member) {
        total += if planned.tiles.is_empty() { planned.layer.len() } else { 0 };
        planned.tiles.iter().for_each(|tile| sets[plan.superweight(tile.superweight).set.0] = true);
    }
    for (i, superweight) in plan.superweights.iter().enumerate() {
        for group in &superweight.groups {
            let own = Group {
                layers: group.layers.iter().copied().filter(of_member).collect(),
                ..*group
            };
            let cells = plan.coefficient_cells(SuperWeightId(i), &own).len();
            let rows = if plan.has_patterns() { cells.min(1) } else { cells };
            total += (rows * group.shape[1]) as u64;
        }
        if plan.has_patterns() && !superweight.groups.is_empty() {
            let own =
                Group { layers: superweight.layers().filter(of_member).collect(), shape: [0, 0] };
            let cells = plan.coefficient_cells(SuperWeightId(i), &own).len();
            total += (cells * plan.set(superweight.set).templates) as u64;
        }
    }
    for (i, (set, _)) in
        plan.template_sets.iter().zip(sets).enumerate().filter(|(_, (_, used))| *used)
    {
        total += plan.factor_parameters(SetId(i));
        total += if set.view.is_none() { set.templates as u64 * set.block_len() } else { 0 };
    }
    let mine = |id| plan.used_bank_parameters(id, |layer| layer.member == member);
    total += (0..plan.clusters.len()).map(|i| mine(ClusterId(i))).sum::<u64>();
    total + plan.vectors.iter().filter(|v| v.member == member).map(|v| v.len).sum::<u64>()
}
