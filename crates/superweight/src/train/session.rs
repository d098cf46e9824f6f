//! A run in this process: everything that changes while it trains.

use std::path::Path;
use std::sync::Arc;

use superweight_engine::Device;
use superweight_plan::SharingPlan;

use super::phase::{Phase, Position};
use super::trainer::Trainer;
use crate::data::{Dataset, ValidationSplit};
use crate::recipe::Resolved;
use crate::run::{Log, RunFolder, TensorBoard, Tensors, WeightDecayGroup};
use crate::search::Statistics;

/// A run that this process trains: recipe, images, networks, optimizer, and its position in the
/// training.
///
/// [`Session::create`] starts a run, [`Session::resume`] continues one, and [`Session::run`] trains
/// it to its end.
#[derive(Debug)]
pub struct Session<D: Device> {
    pub(super) resolved: Resolved,
    pub(super) phases: Vec<Phase>,
    pub(super) data: Arc<Dataset>,
    pub(super) split: ValidationSplit,
    pub(super) folder: RunFolder,
    pub(super) log: Log,
    pub(super) board: TensorBoard,
    pub(super) trainer: Trainer<D>,
    pub(super) groups: Vec<WeightDecayGroup>,
    pub(super) position: Position,
    /// Number of the newest checkpoint. Numbers count through all phases.
    pub(super) number: Option<u64>,
    /// Checkpoint and position that this process resumed from.
    pub(super) resumed: Option<(u64, Position)>,
    /// Position of the newest checkpoint, or of the start of the run.
    pub(super) kept: Position,
    /// Warnings that no observer has received yet.
    pub(super) warnings: Vec<String>,
    /// Statistics of search and refinement so far.
    pub(super) statistics: Statistics,
    /// Stochastic weight average so far; empty before the first epoch that counts.
    pub(super) mean: Tensors,
}

impl<D: Device> Session<D> {
    /// Folder of the run.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sharing plan in use.
    pub fn plan(&self) -> &SharingPlan {
        self.trainer.ensemble().plan()
    }

    /// Number of training, validation and test images.
    pub fn images(&self) -> [usize; 3] {
        [self.split.train.len(), self.split.validation.len(), self.data.test.len()]
    }
}
