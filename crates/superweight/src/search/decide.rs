//! Decisions: from statistics to a plan. Training and [`replay`](super::replay()) both call these
//! functions, so that they decide the same.

use superweight_plan::number::with_commas;
use superweight_plan::{
    Assignment, Clustering, LayerId, Partition, PlanError, PlanRequest, RefinedPlan, SharingPlan,
    refine, search,
};

use super::SearchError;
use super::coefficients::coefficient_pairs;
use super::kmeans::kmeans;
use super::means::is_split;
use super::pairs::PairStatistic;
use super::statistics::{Compared, RefineStatistics, SearchStatistics};
use crate::recipe::Resolved;
use crate::rng::Draws;
use crate::run::DecisionEvent;

/// Key of the random values of k-means, which separates them from other uses of the seed.
const KMEANS: u64 = 0x6b6d_6561_6e73;

/// A plan, and the threshold that gave it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Decision {
    /// Plan to train next.
    pub plan: SharingPlan,
    /// Threshold, as requested and as used.
    pub threshold: Threshold,
}

impl Decision {
    /// The decision as an event of the log. `before` is the plan before the decision.
    pub fn event(&self, before: &SharingPlan) -> DecisionEvent {
        let sizes: Vec<usize> =
            self.plan.clusters.iter().map(|cluster| cluster.layers.len()).collect();
        let Threshold { requested, used, relaxed, .. } = &self.threshold;
        let value_of = |name: &str, value: f64| (self.threshold.word() == name).then_some(value);
        DecisionEvent {
            clusters_before: before.clusters.len(),
            clusters: sizes.len(),
            sizes,
            groups_before: groups(before),
            groups: groups(&self.plan),
            bill_before: before.bill,
            bill: self.plan.bill,
            budget: self.plan.budget,
            tau: value_of("tau", *requested),
            tau_used: value_of("tau", *used),
            beta: value_of("beta", *requested),
            beta_used: value_of("beta", *used),
            k: value_of("k", *requested),
            k_used: value_of("k", *used),
            relaxed: relaxed.clone(),
        }
    }
}

/// Number of coefficient groups of all SuperWeights of a plan.
pub fn groups(plan: &SharingPlan) -> usize {
    plan.superweights.iter().map(|superweight| superweight.groups.len()).sum()
}

/// A threshold, or a number of clusters, as requested and as used.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// `τ`, `β`, or `k` of k-means.
    pub name: &'static str,
    /// Value in the recipe or in the replay.
    pub requested: f64,
    /// Value that gave the plan.
    pub used: f64,
    /// Reason why another value was used than requested; `None` if it is the same.
    pub relaxed: Option<String>,
}

impl Threshold {
    fn new(name: &'static str, requested: f64, used: f64, relaxed: Option<String>) -> Self {
        Self { name, requested, used, relaxed }
    }

    /// Name of the threshold in logs and JSON: `tau`, `beta` or `k`.
    pub fn word(&self) -> &'static str {
        match self.name {
            "τ" => "tau",
            "β" => "beta",
            other => other,
        }
    }
}

/// Decides the clusters for training from the statistics of the search, by Algorithm 1 with τ or by
/// k-means.
///
/// # Errors
/// If the recipe has no search, compares layers otherwise than the statistics do, or if no plan
/// fits the budget.
pub fn decide_clusters(
    resolved: &Resolved,
    statistics: &SearchStatistics,
) -> Result<Decision, SearchError> {
    let strategy = resolved.strategy.word();
    let phase =
        resolved.search.as_ref().ok_or(SearchError::NoPhase { strategy, phase: "search" })?;
    if !statistics.compared.matches(phase.similarity) {
        let compared = statistics.compared.word();
        let problem = format!("they compare {compared}, which strategy {strategy} does not");
        return Err(SearchError::Statistics { problem });
    }
    let (start, request) = (&statistics.plan, resolved.train_request()?);
    match &statistics.compared {
        Compared::Gradients(pairs) | Compared::Weights(pairs) => {
            let pairs: Vec<_> = pairs.iter().map(PairStatistic::pair).collect();
            let found = search(start, &request, &pairs, phase.settings)?;
            let threshold = Threshold::new("τ", phase.settings.tau, found.tau, found.relaxed);
            Ok(Decision { plan: found.plan, threshold })
        }
        Compared::Coefficients(means) => {
            let request = request.with_tiling(start.tiling);
            let requested = phase.clusters;
            let mut relaxed = None;
            for k in (1..=requested).rev() {
                let partition = kmeans_clusters(start, means, k, resolved.seed);
                let clusters = partition.len();
                let request =
                    PlanRequest { clusters: Clustering::Explicit(partition), ..request.clone() };
                match request.plan() {
                    Err(PlanError::BudgetTooSmall { needed, budget, .. }) if k > 1 => {
                        let [needed, budget] = [needed, budget].map(with_commas);
                        let reason =
                            || format!("{clusters} clusters need {needed}, the budget is {budget}");
                        relaxed.get_or_insert_with(reason);
                    }
                    plan => {
                        let threshold = Threshold::new("k", requested as f64, k as f64, relaxed);
                        return Ok(Decision { plan: plan?, threshold });
                    }
                }
            }
            unreachable!("k = 1 gives a plan or an error");
        }
    }
}

/// Decides the coefficient groups of the refined plan from dL/dα of every layer, by Algorithm 1
/// with β.
///
/// # Errors
/// If the recipe has no refinement, a gradient is not finite, or no plan fits the budget.
pub fn decide_groups(
    resolved: &Resolved,
    statistics: &RefineStatistics,
) -> Result<Decision, SearchError> {
    let strategy = resolved.strategy.word();
    let phase =
        resolved.refine.as_ref().ok_or(SearchError::NoPhase { strategy, phase: "refinement" })?;
    let assignment =
        resolved.search.as_ref().map_or(Assignment::Merge, |search| search.settings.assignment);
    let pairs = coefficient_pairs(&statistics.plan, &statistics.gradients)?;
    let RefinedPlan { plan, beta, relaxed, .. } =
        refine(&statistics.plan, &pairs, phase.beta, assignment)?;
    Ok(Decision { plan, threshold: Threshold::new("β", phase.beta, beta, relaxed) })
}

/// Splits every cluster of the starting plan that k-means applies to into at most `k` groups; other
/// clusters stay as they are.
fn kmeans_clusters(
    start: &SharingPlan,
    means: &[(LayerId, Vec<f64>)],
    k: usize,
    seed: u64,
) -> Partition {
    let mut partition = vec![];
    for (i, cluster) in start.clusters.iter().enumerate() {
        if !is_split(start, cluster) {
            partition.push(cluster.layers.clone());
            continue;
        }
        let mean_of = |layer: &LayerId| {
            means.iter().find(|(other, _)| other == layer).map(|(_, mean)| mean.clone())
        };
        let points: Vec<Vec<f64>> = cluster.layers.iter().filter_map(mean_of).collect();
        assert_eq!(
            points.len(),
            cluster.layers.len(),
            "every clustered layer has mean coefficients"
        );
        let groups = kmeans(&points, k, Draws::new(&[seed, KMEANS, i as u64]));
        let mut sets: Vec<Vec<LayerId>> = vec![vec![]; k];
        for (&layer, group) in cluster.layers.iter().zip(groups) {
            sets[group].push(layer);
        }
        sets.retain(|set| !set.is_empty());
        sets.sort();
        partition.extend(sets);
    }
    partition
}
