//! What can go wrong between gradients and a new plan, with the facts and what to do.

use superweight_engine::Error as EngineError;
use superweight_plan::{ClusterId, PlanError};

use crate::run::RunError;

/// Why nothing could be decided.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// A sum over an epoch is NaN or infinite: training diverged.
    #[error("{what} of {layer} is not finite: training diverged; lower search.lr (or train.lr)")]
    NotFinite {
        /// Which numbers, in words.
        what: &'static str,
        /// Name of the layer's weight, its member's number in front.
        layer: String,
    },
    /// k-means over coefficients where there are none.
    #[error(
        "the layers of cluster {cluster} have one template and no coefficients to be clustered by: \
         use plan.tiling = \"grid\", or a larger budget"
    )]
    NoCoefficients {
        /// Of the starting plan.
        cluster: ClusterId,
    },
    /// The recipe's strategy has no such phase.
    #[error("strategy {strategy} has no {phase}: there is nothing to decide")]
    NoPhase {
        /// Its word.
        strategy: &'static str,
        /// `search` or `refinement`.
        phase: &'static str,
    },
    /// A run that has not come to the phase whose statistics are asked for.
    #[error(
        "there are no statistics of a {phase}: the run has not come to it, or its strategy has none"
    )]
    NoStatistics {
        /// `search` or `refinement`.
        phase: &'static str,
    },
    /// β was given, and the coefficient gradients belong to other clusters.
    #[error(
        "dL/dα was summed while training other clusters than this τ gives: leave out --beta, or train with this τ"
    )]
    OtherClusters,
    /// A file of statistics contradicts itself.
    #[error("statistics: {problem}")]
    Statistics {
        /// What was found and what was expected.
        problem: String,
    },
    /// The planner refused.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The file could not be read or written.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The device refused.
    #[error(transparent)]
    Engine(#[from] EngineError),
}
