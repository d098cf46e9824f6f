//! Errors of everything that uses a trained run.

use std::path::PathBuf;

use superweight_engine::Error;
use thiserror::Error;

use crate::data::DataError;
use crate::evaluate::PredictionError;
use crate::model::{Outputs, TooMany};
use crate::recipe::RecipeError;
use crate::run::RunError;

/// Why a trained run cannot be opened, run or exported.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InferError {
    /// The run has no checkpoint, or a file of it cannot be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The run's `resolved.toml` is invalid.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The images cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The device failed.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The logits cannot be used as predictions, such as logits that are not finite.
    #[error(transparent)]
    Predictions(#[from] PredictionError),
    /// The run has too many members to list their subsets.
    #[error(transparent)]
    TooManyMembers(#[from] TooMany),
    /// The checkpoint's tensors do not fit its plan.
    #[error("{}, checkpoint {number}: its tensors are not of its plan: {why}", run.display())]
    OtherTensors {
        /// The run's folder.
        run: PathBuf,
        /// Number of the checkpoint.
        number: u64,
        /// The first tensor that does not fit.
        why: String,
    },
    /// The run has no member of this index.
    #[error("there is no member {member}: the run has {}", known_members(outputs, *members))]
    NoMember {
        /// The requested index.
        member: usize,
        /// Number of members of the run.
        members: usize,
        /// Outputs of the run.
        outputs: Outputs,
    },
    /// The run keeps no images for validation.
    #[error("{} was trained on all training images: it has none for validation", run.display())]
    NoValidation {
        /// The run's folder.
        run: PathBuf,
    },
    /// The images have another size than the members take.
    #[error("images have {found} values; the members take {expected}")]
    ImageSize {
        /// Values per image in the input.
        found: usize,
        /// Values per image that the members take.
        expected: usize,
    },
}

/// The valid indices of members; for exits, a note that they are not members.
fn known_members(outputs: &Outputs, members: usize) -> String {
    match (members, outputs.nested()) {
        (1, true) => format!("one, 0, whose {outputs} are not members by themselves"),
        (1, false) => "one, 0".to_owned(),
        _ => format!("0 to {}", members - 1),
    }
}
