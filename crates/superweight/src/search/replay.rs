//! Decisions from saved statistics, with the same or other thresholds, without training.
//!
//! With the thresholds of the run the result is the plan of the run. Another τ gives other
//! clusters. dL/dα was summed on the SuperWeights of the clusters that were trained, so β can be
//! replayed only for these clusters.

use super::decide::{Decision, decide_clusters, decide_groups};
use super::statistics::Statistics;
use super::{RefineStatistics, SearchError};
use crate::recipe::Resolved;

/// Thresholds of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Replay {
    /// τ of the search; `None` for that of the recipe.
    pub tau: Option<f64>,
    /// β of refinement; `None` to replay the search only.
    pub beta: Option<f64>,
}

/// Decisions of a replay.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Replayed {
    /// Decision of the search; `None` for a run without one, which refined its starting plan.
    pub clusters: Option<Decision>,
    /// Decision of refinement; `None` if no β was given.
    pub groups: Option<Decision>,
}

impl Replayed {
    /// The last decision: that of refinement, or else that of the search.
    pub fn decision(&self) -> &Decision {
        let last = self.groups.as_ref().or(self.clusters.as_ref());
        last.expect("a replay has a decision")
    }
}

/// Makes the decisions of a run again. `resolved` is the resolved recipe of the run.
///
/// # Errors
/// If the statistics for a decision are missing, belong to other clusters or do not fit the recipe,
/// or if no plan fits the budget.
pub fn replay(
    resolved: &Resolved,
    statistics: &Statistics,
    with: Replay,
) -> Result<Replayed, SearchError> {
    let mut resolved = resolved.clone();
    if let (Some(tau), Some(search)) = (with.tau, resolved.search.as_mut()) {
        search.settings.tau = tau;
    }
    let clusters = match &statistics.search {
        Some(search) => Some(decide_clusters(&resolved, search)?),
        None if with.beta.is_none() => return Err(SearchError::NoStatistics { phase: "search" }),
        None => None,
    };
    let groups = match with.beta {
        None => None,
        Some(beta) => {
            if let Some(refine) = resolved.refine.as_mut() {
                refine.beta = beta;
            }
            let refine = statistics
                .refine
                .as_ref()
                .ok_or(SearchError::NoStatistics { phase: "refinement" })?;
            let same = |RefineStatistics { plan, .. }: &RefineStatistics| {
                clusters.as_ref().is_none_or(|decision| decision.plan == *plan)
            };
            if !same(refine) {
                return Err(SearchError::OtherClusters);
            }
            Some(decide_groups(&resolved, refine)?)
        }
    };
    Ok(Replayed { clusters, groups })
}
