//! What keeps a run from starting, going on or being saved.

use std::path::PathBuf;

use superweight_plan::PlanError;

use crate::data::DataError;
use crate::engine;
use crate::recipe::RecipeError;
use crate::run::RunError;
use crate::search::SearchError;

/// Anything about training.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The recipe that a run keeps.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The images.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The run's folder.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The device.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// Search or refinement.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// More trainable numbers than were asked for.
    #[error(
        "the plan has {total} trainable numbers, the budget is {budget}: raise the budget, or plan anew"
    )]
    OverBudget {
        /// Every trainable number, and what is kept for refinement.
        total: u64,
        /// What was asked for.
        budget: u64,
    },
    /// A recipe of a run that is no longer whole.
    #[error(
        "{file}: it has no {table}, which the run had written: bring the file back before going on"
    )]
    Cut {
        /// Which.
        file: String,
        /// As it is written.
        table: String,
    },
    /// A run that cannot go on as another.
    #[error("{} cannot go on so: {why}", from.display())]
    Branch {
        /// The run.
        from: PathBuf,
        /// What is wrong, and what could be asked for.
        why: String,
    },
    /// A checkpoint that cannot be gone on from.
    #[error("checkpoint {number} of {} cannot be used: {why}", path.display())]
    Checkpoint {
        /// Of the checkpoint.
        number: u64,
        /// The run.
        path: PathBuf,
        /// What was found and what was expected.
        why: String,
    },
}
