//! Errors of recipes. Each names the place, the key and what is allowed.

use std::fmt;
use std::io;
use std::path::PathBuf;

use superweight_plan::PlanError;
use thiserror::Error;

/// Reason why a recipe cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// The file cannot be read.
    #[error("cannot read the recipe {file}: {source}")]
    Read {
        /// Path as given.
        file: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file is not TOML, or a `--set` is not `key=value`.
    #[error("{place}: {problem}")]
    Syntax {
        /// Place of the error.
        place: Place,
        /// Description of the problem.
        problem: String,
    },
    /// No key has this name.
    #[error("{place}: there is no key '{key}'{}; allowed here: {allowed}", suggestion.map_or(String::new(), |s| format!(", did you mean '{s}'?")))]
    UnknownKey {
        /// Place of the key.
        place: Place,
        /// Key as typed, with its table.
        key: String,
        /// The key that was probably meant.
        suggestion: Option<&'static str>,
        /// Keys of the table.
        allowed: String,
    },
    /// The plan file that the recipe names cannot be trained.
    #[error("plan.file {}: {problem}", file.display())]
    PlanFile {
        /// Path of the plan file, with the recipe's folder in front.
        file: PathBuf,
        /// Description of the problem.
        problem: String,
    },
    /// The planner found no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A value is not allowed, by itself or beside the other values.
    #[error("{place}: {key}: {problem}; allowed: {allowed}")]
    Value {
        /// Place of the value.
        place: Place,
        /// Key of the value.
        key: &'static str,
        /// Description of the problem.
        problem: String,
        /// Allowed values.
        allowed: String,
    },
}

/// Place of a key or value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the recipe file. Line and column count from 1; columns count characters.
    File {
        /// Path as given.
        file: String,
        /// Line number.
        line: usize,
        /// Column number.
        column: usize,
    },
    /// On the command line; the text of the flag as typed.
    Flag(String),
    /// Neither in the file nor on the command line: the value is a default.
    Default {
        /// Path of the recipe.
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
