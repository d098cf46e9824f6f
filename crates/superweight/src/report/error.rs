//! Errors of making a report.

use std::io;
use std::path::PathBuf;

use superweight_plan::PlanError;

use crate::infer::anytime::ProfileError;
use crate::recipe::RecipeError;
use crate::run::RunError;
use crate::search::SearchError;

/// Why a report cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The run's folder, or a file in it, cannot be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The recipe that the run keeps is invalid.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The plan of a checkpoint or of the statistics is invalid.
    #[error("the plan of {}: {source}", run.display())]
    Plan {
        /// Folder of the run.
        run: PathBuf,
        /// What is wrong with the plan.
        source: PlanError,
    },
    /// The statistics of search and refinement are invalid.
    #[error("{}: {source}", file.display())]
    Statistics {
        /// Path of the file.
        file: PathBuf,
        /// What is wrong with the statistics.
        source: SearchError,
    },
    /// A file of an evaluation is invalid.
    #[error("{}: {what}", file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// What is wrong with the file, and how to write it again.
        what: String,
    },
    /// The profile of `swn anytime` is invalid.
    #[error(transparent)]
    Profile(ProfileError),
    /// The report cannot be written.
    #[error("{} could not be written: {source}; choose another place with --out or --plots", path.display())]
    Write {
        /// Path of the report.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}
