//! What can go wrong with a run folder, with the facts and what to do.

use std::io;
use std::path::{Path, PathBuf};

use super::tensors::Dtype;

/// Anything about a run folder and its files.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// As in "cannot … the file".
        doing: &'static str,
        /// Of what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not what its format says.
    #[error("{} at byte {offset}: {what}", file.display())]
    Malformed {
        /// Which file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// What was found and what was expected.
        what: String,
    },
    /// A file of a newer or foreign program: nothing is wrong with it, and nothing else must be taken for it.
    #[error("{} has version {found}, this program reads version {supported}: use the program that wrote it", file.display())]
    Version {
        /// Which file.
        file: PathBuf,
        /// As written in it.
        found: u32,
        /// What is read here.
        supported: u32,
    },
    /// A tensor of a file is not what it should be.
    #[error("{} at byte {offset}, tensor '{tensor}': {what}", file.display())]
    Tensor {
        /// Which file.
        file: PathBuf,
        /// Its name.
        tensor: String,
        /// Where its data begin, or its header where they begin nowhere.
        offset: u64,
        /// What was found and what was expected.
        what: String,
    },
    /// A tensor that is asked for is not there.
    #[error("there is no tensor '{tensor}'")]
    MissingTensor {
        /// Its name.
        tensor: String,
    },
    /// A tensor is there with other numbers.
    #[error("tensor '{tensor}' is {found} {found_shape:?}; expected {expected} {expected_shape:?}")]
    OtherTensor {
        /// Its name.
        tensor: String,
        /// Kind of numbers.
        found: Dtype,
        /// Shape.
        found_shape: Vec<usize>,
        /// Kind of numbers asked for.
        expected: Dtype,
        /// Shape asked for.
        expected_shape: Vec<usize>,
    },
    /// A name that cannot be a folder's.
    #[error("'{name}' cannot name a run: {why}")]
    BadName {
        /// As given.
        name: String,
        /// Which rule it breaks.
        why: &'static str,
    },
    /// There is a run of that name already.
    #[error("{} is there already: resume it (--resume), choose another name (--name), or replace it (--replace)", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// A folder without what every run has.
    #[error("{} is not a run folder: it has no resolved.toml", path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// Another process is writing the run.
    #[error("{} is in use{}: stop that process first, or choose another name", path.display(), by(.process))]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The process that holds it, as far as known.
        process: Option<u32>,
    },
    /// The latest checkpoint is whole and has this number or a higher one.
    #[error("checkpoint {number} cannot be saved in {}: {latest} is there already, whole", path.display())]
    NotNewer {
        /// Of the checkpoint.
        number: u64,
        /// Of the one that is there.
        latest: u64,
        /// The folder of checkpoints.
        path: PathBuf,
    },
    /// There are checkpoints, all damaged.
    #[error("no checkpoint in {} is whole, so that the run must be started anew: {}", path.display(), list(.damaged))]
    NoWholeCheckpoint {
        /// The folder of checkpoints.
        path: PathBuf,
        /// What is wrong with each, newest first.
        damaged: Vec<RunError>,
    },
    /// A file has another digest than the checkpoint's list says.
    #[error("{} is damaged: its SHA-256 is {found}, the checkpoint says {expected}", file.display())]
    Digest {
        /// Which file.
        file: PathBuf,
        /// From `SHA256SUMS`.
        expected: String,
        /// Of the bytes that are there.
        found: String,
    },
}

impl RunError {
    /// For `map_err`.
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
