//! What can be wrong with a recipe: always where, which key, and what is allowed.

use std::fmt;
use std::io;
use std::path::PathBuf;

use superweight_plan::PlanError;
use thiserror::Error;

/// Why a recipe cannot be used.
#[derive(Debug, Error)]
pub enum RecipeError {
    /// The file cannot be read.
    #[error("cannot read the recipe {file}: {source}")]
    Read {
        /// As given.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// It is not TOML, or a `--set` is not `key=value`.
    #[error("{place}: {problem}")]
    Syntax {
        /// Where.
        place: Place,
        /// What.
        problem: String,
    },
    /// There is no such key.
    #[error("{place}: there is no key '{key}'{}; allowed here: {allowed}", suggestion.map_or(String::new(), |s| format!(", did you mean '{s}'?")))]
    UnknownKey {
        /// Where.
        place: Place,
        /// As typed, with its table.
        key: String,
        /// A known one that is near.
        suggestion: Option<&'static str>,
        /// The keys of that table.
        allowed: String,
    },
    /// The plan that it names cannot be trained.
    #[error("plan.file {}: {problem}", file.display())]
    PlanFile {
        /// With the recipe's folder.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// There is no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A value that cannot be, by itself or beside the others.
    #[error("{place}: {key}: {problem}; allowed: {allowed}")]
    Value {
        /// Where.
        place: Place,
        /// Whose.
        key: &'static str,
        /// What is wrong.
        problem: String,
        /// What would be right.
        allowed: String,
    },
}

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the file; line and column count from 1, columns in characters.
    File {
        /// As given.
        file: String,
        /// Line.
        line: usize,
        /// Column.
        column: usize,
    },
    /// Given on the command line, as typed.
    Flag(String),
    /// Nowhere: it is a default.
    Default {
        /// Where it could stand.
        file: String,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Flag(typed) => write!(f, "--set {typed}"),
            Self::Default { file } => write!(f, "{file} (by default)"),
        }
    }
}
