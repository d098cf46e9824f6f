//! Errors of search and refinement.

use superweight_engine::Error as EngineError;
use superweight_plan::{ClusterId, PlanError};

use crate::run::RunError;

/// Reason why search or refinement could not decide on a plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// A value that layers are compared by is NaN or infinite, because training diverged.
    #[error("{what} of {layer} is not finite: training diverged; lower search.lr (or train.lr)")]
    NotFinite {
        /// Name of the compared quantity, such as `Σ dL/dW`.
        what: &'static str,
        /// Name of the layer's weight, with the index of its member as prefix.
        layer: String,
    },
    /// k-means was chosen for layers that have no coefficients.
    #[error(
        "the layers of cluster {cluster} have one template and no coefficients to be clustered by: \
         use plan.tiling = \"grid\", or a larger budget"
    )]
    NoCoefficients {
        /// Cluster of the starting plan.
        cluster: ClusterId,
    },
    /// The recipe's strategy has no such phase.
    #[error("strategy {strategy} has no {phase}: there is nothing to decide")]
    NoPhase {
        /// Name of the strategy.
        strategy: &'static str,
        /// `search` or `refinement`.
        phase: &'static str,
    },
    /// The run has no statistics of the phase that is replayed.
    #[error(
        "there are no statistics of a {phase}: \
         the run has not reached it, or its strategy has none"
    )]
    NoStatistics {
        /// `search` or `refinement`.
        phase: &'static str,
    },
    /// β cannot be replayed, because the statistics of refinement belong to other clusters.
    #[error(
        "dL/dα was summed while training other clusters than this τ gives: \
         leave out --beta, or train with this τ"
    )]
    OtherClusters,
    /// A file of statistics is damaged, or does not fit the recipe.
    #[error("statistics: {problem}")]
    Statistics {
        /// Description of the problem: what was found and what was expected.
        problem: String,
    },
    /// The planner found no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A file of the run could not be read or written.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The engine returned an error.
    #[error(transparent)]
    Engine(#[from] EngineError),
}
