//! What would another threshold have given? Clusters and groups anew from saved statistics, without training.
//!
//! With the thresholds of the run this is the run's own plan. Another τ gives other clusters; dL/dα was summed on the
//! SuperWeights of the clusters that were trained, so that groups can be had for these alone.

use super::decide::{Decision, decide_clusters, decide_groups};
use super::statistics::Statistics;
use super::{RefineStatistics, SearchError};
use crate::recipe::Resolved;

/// Thresholds in place of the recipe's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Replay {
    /// τ.
    pub tau: Option<f64>,
    /// β; refines only where it is given.
    pub beta: Option<f64>,
}

/// The plan that the search of a run would give, and with β the one that refinement would.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// Of the search; none where the run had none and refined the plan it started from.
    pub clusters: Option<Decision>,
    /// Of refinement, where it was asked for.
    pub groups: Option<Decision>,
}

impl Replayed {
    /// The last one.
    pub fn decision(&self) -> &Decision {
        let last = self.groups.as_ref().or(self.clusters.as_ref());
        last.expect("a replay decides something or fails")
    }
}

/// Decides again. `resolved` is that of the run.
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
