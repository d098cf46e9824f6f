//! What keeps a report from being made.

use std::io;
use std::path::PathBuf;

use superweight_plan::PlanError;

use crate::infer::anytime::ProfileError;
use crate::recipe::RecipeError;
use crate::run::RunError;
use crate::search::SearchError;

/// Anything about a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The run's folder, or a file in it.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The recipe that the run keeps.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// A plan, of a checkpoint or of the statistics.
    #[error("the plan of {}: {source}", run.display())]
    Plan {
        /// The run.
        run: PathBuf,
        /// What is wrong with it.
        source: PlanError,
    },
    /// The statistics of search and refinement.
    #[error("{}: {source}", file.display())]
    Statistics {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        source: SearchError,
    },
    /// A file that an evaluation left.
    #[error("{}: {what}", file.display())]
    File {
        /// Which file.
        file: PathBuf,
        /// What was found and what was expected.
        what: String,
    },
    /// The profile that an evaluation left.
    #[error(transparent)]
    Profile(ProfileError),
    /// The report could not be written.
    #[error("{} could not be written: {source}; choose another place with --out or --plots", path.display())]
    Write {
        /// Where to.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
