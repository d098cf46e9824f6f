//! Errors of run folders and their files.

use std::io;
use std::path::{Path, PathBuf};

use superweight_plan::PlanError;

use super::dtype::Dtype;
use crate::recipe::RecipeError;

/// Why a run folder or one of its files cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A file operation failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// Verb that completes the message "cannot … the file".
        doing: &'static str,
        /// File or folder of the operation.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file breaks the rules of its format.
    #[error("{} at byte {offset}: {what}", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// Byte offset of the problem.
        offset: u64,
        /// What was found and what the format requires.
        what: String,
    },
    /// Another version of the program wrote the file. The file is not damaged, so an older
    /// checkpoint does not replace it.
    #[error("{} has version {found}, this program reads version {supported}: use the program that wrote it", file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// Version that the file states.
        found: u32,
        /// Version that this program reads.
        supported: u32,
    },
    /// A tensor in a `.safetensors` file breaks the rules of the format.
    #[error("{} at byte {offset}, tensor '{tensor}': {what}", file.display())]
    Tensor {
        /// The file.
        file: PathBuf,
        /// Name of the tensor.
        tensor: String,
        /// Byte offset of its data.
        offset: u64,
        /// What was found and what the format requires.
        what: String,
    },
    /// A required tensor is missing.
    #[error("there is no tensor '{tensor}'")]
    MissingTensor {
        /// Name of the tensor.
        tensor: String,
    },
    /// A tensor has another element type or shape than required.
    #[error("tensor '{tensor}' is {found} {found_shape:?}; expected {expected} {expected_shape:?}")]
    OtherTensor {
        /// Name of the tensor.
        tensor: String,
        /// Element type in the file.
        found: Dtype,
        /// Shape in the file.
        found_shape: Vec<usize>,
        /// Required element type.
        expected: Dtype,
        /// Required shape.
        expected_shape: Vec<usize>,
    },
    /// The name of a new run breaks the rule for names ([`crate::fs::check_name`]).
    #[error("'{name}' cannot name a run: {why}")]
    BadName {
        /// The name.
        name: String,
        /// The rule that it breaks.
        why: &'static str,
    },
    /// A file or folder of the run's name exists.
    #[error("{} is there already: resume it (--resume), choose another name (--name), or replace it (--replace)", path.display())]
    Exists {
        /// The existing file or folder.
        path: PathBuf,
    },
    /// The folder lacks `resolved.toml`, which every run has.
    #[error("{} is not a run folder: it has no resolved.toml", path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// Another process writes the run.
    #[error("{} is in use{}: stop that process first, or choose another name", path.display(), by(.process))]
    InUse {
        /// Folder of the run.
        path: PathBuf,
        /// Number of that process, if its lock file states it.
        process: Option<u32>,
    },
    /// The latest whole checkpoint has this number or a higher one.
    #[error("cannot save checkpoint {number} in {}: checkpoint {latest} exists and is whole", path.display())]
    NotNewer {
        /// Number of the checkpoint to save.
        number: u64,
        /// Number of the latest whole checkpoint.
        latest: u64,
        /// Folder of the checkpoints.
        path: PathBuf,
    },
    /// All checkpoints of the run are damaged.
    #[error("every checkpoint in {} is damaged, so the run must start again: {}", path.display(), list(.damaged))]
    NoWholeCheckpoint {
        /// Folder of the checkpoints.
        path: PathBuf,
        /// Error of each checkpoint, newest first.
        damaged: Vec<RunError>,
    },
    /// The newest checkpoint has no optimizer, which training needs to continue.
    #[error(
        "{} is missing: training cannot continue without it; 'swn eval', 'swn predict' and 'swn export' work without it",
        file.display()
    )]
    NoOptimizer {
        /// The missing file.
        file: PathBuf,
    },
    /// A file of a checkpoint has another digest than `SHA256SUMS` lists.
    #[error("{} is damaged: its SHA-256 is {found}, SHA256SUMS lists {expected}", file.display())]
    Digest {
        /// The file.
        file: PathBuf,
        /// Digest in `SHA256SUMS`.
        expected: String,
        /// Digest of the bytes in the file.
        found: String,
    },
    /// The run has no checkpoint yet.
    #[error("{} has no checkpoint yet: train at least one epoch ('swn train --resume {}')", path.display(), path.display())]
    NoCheckpoint {
        /// Folder of the run.
        path: PathBuf,
    },
    /// `resolved.toml` is not a recipe that this program can run.
    #[error(transparent)]
    Recipe(Box<RecipeError>),
    /// The plan of a checkpoint cannot be used.
    #[error("{}, checkpoint {number}: plan.json: {source}", path.display())]
    Plan {
        /// Folder of the run.
        path: PathBuf,
        /// Number of the checkpoint.
        number: u64,
        /// What is wrong with the plan.
        source: Box<PlanError>,
    },
    /// The plan of a checkpoint contradicts the recipe beside it.
    #[error("{}, checkpoint {number}: {reason}: a file is of another run", path.display())]
    OtherRecipe {
        /// Folder of the run.
        path: PathBuf,
        /// Number of the checkpoint.
        number: u64,
        /// The first difference.
        reason: String,
    },
}

impl From<RecipeError> for RunError {
    fn from(error: RecipeError) -> Self {
        Self::Recipe(Box::new(error))
    }
}

impl RunError {
    /// Builds an [`RunError::Io`]; for `map_err`.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}

fn by(process: &Option<u32>) -> String {
    process.map(|process| format!(" by process {process}")).unwrap_or_default()
}

fn list(errors: &[RunError]) -> String {
    errors.iter().map(RunError::to_string).collect::<Vec<_>>().join("; ")
}
