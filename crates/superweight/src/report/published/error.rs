//! What keeps a run from being published, or a table from being made.

use std::io;
use std::path::{Path, PathBuf};

use crate::infer::anytime::ProfileError;
use crate::evaluate::PredictionError;
use crate::recipe::RecipeError;
use crate::run::RunError;

/// Anything about results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultsError {
    /// The run's folder, or a file in it.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The recipe that the run keeps.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The predictions.
    #[error(transparent)]
    Predictions(#[from] PredictionError),
    /// What was measured of it.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A file that cannot be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// In words.
        doing: &'static str,
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that says what it should not.
    #[error("{}: {what}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What was found and what to do.
        what: String,
    },
    /// A record that its own files contradict.
    #[error("{}: {what} is {said} in run.json and {found} in its {file}", folder.display())]
    Contradiction {
        /// The published run.
        folder: PathBuf,
        /// Which figure.
        what: String,
        /// As recorded.
        said: String,
        /// As computed again.
        found: String,
        /// From which file.
        file: &'static str,
    },
    /// Files of a run that say different things of it: one of them is of another checkpoint, or of fewer images.
    #[error(
        "{0}: {what}; evaluate it over all images: 'swn eval {0}{1}', and 'swn anytime {0}{1}' where it has a profile",
        run.display(), if *held_out { " --held-out" } else { "" }
    )]
    Disagree {
        /// The run.
        run: PathBuf,
        /// In words.
        what: String,
        /// Whether it is judged by held-out images.
        held_out: bool,
    },
    /// More numbers than allowed.
    #[error("{}: {total} numbers, the budget is {budget}", folder.display())]
    OverBudget {
        /// The published run.
        folder: PathBuf,
        /// What the plan has.
        total: u64,
        /// What it may have.
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
