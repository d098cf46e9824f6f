//! Errors of publishing runs and of making the table.

use std::io;
use std::path::{Path, PathBuf};

use crate::evaluate::PredictionError;
use crate::infer::anytime::ProfileError;
use crate::recipe::RecipeError;
use crate::run::RunError;

/// Why a run cannot be published or the table not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultsError {
    /// The run's folder, or a file in it, cannot be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The recipe that the run keeps is invalid.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The predictions are invalid.
    #[error(transparent)]
    Predictions(#[from] PredictionError),
    /// The profile of `swn anytime` is invalid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A file cannot be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was attempted, such as `read`.
        doing: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file has wrong contents.
    #[error("{}: {what}", file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// What is wrong, and what to do.
        what: String,
    },
    /// A record contradicts the files beside it.
    #[error("{}: {what} is {recorded} in run.json and {found} in its {file}", folder.display())]
    Contradiction {
        /// Folder of the published run.
        folder: PathBuf,
        /// Name of the figure.
        what: String,
        /// Value in the record.
        recorded: String,
        /// Value computed from the file.
        found: String,
        /// Name of the file.
        file: &'static str,
    },
    /// Files of a run contradict each other: one of them is of another checkpoint, or of fewer
    /// images.
    #[error(
        "{0}: {what}; evaluate it over all images: 'swn eval {0}{1}', and 'swn anytime {0}{1}' where it has a profile",
        run.display(), if *validation { " --validation" } else { "" }
    )]
    Disagree {
        /// Folder of the run.
        run: PathBuf,
        /// What they contradict each other in.
        what: String,
        /// Whether the run is evaluated on validation images.
        validation: bool,
    },
    /// The plan has more parameters than the budget.
    #[error("{}: {total} parameters, the budget is {budget}", folder.display())]
    OverBudget {
        /// Folder of the published run.
        folder: PathBuf,
        /// Number of parameters in the plan.
        total: u64,
        /// The budget.
        budget: u64,
    },
}

impl ResultsError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }

    pub(super) fn file(file: &Path, what: impl ToString) -> Self {
        Self::File { file: file.to_owned(), what: what.to_string() }
    }
}
