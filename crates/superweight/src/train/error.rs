//! Errors of starting, resuming, training and saving a run.

use std::path::PathBuf;

use superweight_plan::PlanError;

use crate::data::DataError;
use crate::engine;
use crate::recipe::RecipeError;
use crate::run::RunError;
use crate::search::SearchError;

/// Reason why a run cannot start, continue or be saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The recipe of the run is not usable.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The planner found no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The data set is not usable.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The folder of the run is not usable.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The device failed.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// Search or refinement failed.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The plan has more parameters than the budget.
    #[error(
        "the plan has {total} parameters, the budget is {budget}: raise the budget, or make a new plan"
    )]
    OverBudget {
        /// Parameters of the plan, including the reserve for refinement.
        total: u64,
        /// Parameter budget.
        budget: u64,
    },
    /// The complete recipe of a run lacks a table that the run has written.
    #[error(
        "{file}: the table {table} is missing, which the run has written: restore the file, then resume"
    )]
    Cut {
        /// Path of the recipe.
        file: String,
        /// Name of the missing table.
        table: String,
    },
    /// A branch of a run is not possible.
    #[error("{} cannot be continued with these settings: {why}", from.display())]
    Branch {
        /// Run to start from.
        from: PathBuf,
        /// Reason, and what is possible instead.
        why: String,
    },
    /// A checkpoint does not fit the recipe.
    #[error("checkpoint {number} of {} cannot be used: {why}", path.display())]
    Checkpoint {
        /// Number of the checkpoint.
        number: u64,
        /// Folder of the run.
        path: PathBuf,
        /// What was found, and what was expected.
        why: String,
    },
}
