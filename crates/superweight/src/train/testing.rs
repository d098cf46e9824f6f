//! A run small enough to be done hundreds of times: two members at 4×4 pixels on a data set of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use superweight_engine::CpuDevice;

use super::{Limits, Observer, Outcome, Progress, Request, Session, TrainError};
use crate::data::Dataset;
use crate::data::testing::dataset;
use crate::recipe::{Recipe, Resolved};
use crate::run::{Checkpoint, Disk, Existing, RunFolder, load_checkpoint};

/// Two members, shared parameters, three steps an epoch. Cutout is 16 pixels wide by default, which is more than the image:
/// nothing would be left to learn from.
const RECIPE: &str = "
name = 'tiny'
members = ['wrn-10-1', 'cnn-4-8']
budget = '60%'
strategy = 'no-search'
plan = { tiling = 'grid', block = 8, scale = 'balanced', share_classifier = false }
data = { name = 'fashion-mnist-10k', validation = 6, padding = 1, cutout = 2 }
train = { batch = 8, bn_batch_size = 4, epochs = 4, schedule = 'constant' }
";

pub fn tiny(set: &[&str]) -> Resolved {
    let mut resolved = Recipe::parse("tiny.toml", RECIPE, set).unwrap().resolve().unwrap();
    let data = data();
    (resolved.data.shape, resolved.data.classes) = (data.shape, data.classes.len());
    resolved
}

pub fn data() -> Arc<Dataset> {
    Arc::new(dataset(32, 9))
}

pub fn device() -> CpuDevice {
    CpuDevice::new(1).unwrap()
}

pub fn create(
    disk: Disk,
    runs: &Path,
    resolved: &Resolved,
) -> Result<Session<CpuDevice>, TrainError> {
    let request = Request {
        resolved: resolved.clone(),
        recipe: RECIPE.to_owned(),
        data: data(),
        runs: runs.to_owned(),
        existing: Existing::Refuse,
    };
    Session::create_on(disk, &device(), request)
}

pub fn resume(
    disk: Disk,
    run: &Path,
    resolved: &Resolved,
) -> Result<Session<CpuDevice>, TrainError> {
    Session::open(&device(), RunFolder::resume_on(disk, run)?, resolved.clone(), data())
}

/// The run, done at once.
pub fn unbroken(runs: &Path, resolved: &Resolved) -> Outcome {
    create(Disk::default(), runs, resolved).unwrap().run(&Limits::default(), &mut ()).unwrap()
}

/// Asks a run to stop after so many epochs and so many steps of the next.
pub struct StopAfter {
    pub epochs: u64,
    pub steps: u64,
    pub limits: Limits,
}

impl StopAfter {
    pub fn new(epochs: u64, steps: u64) -> Self {
        Self { epochs, steps, limits: Limits::default() }
    }
}

impl Observer for StopAfter {
    fn on_progress(&mut self, progress: Progress<'_>) {
        let now = match progress {
            Progress::Epoch(report) => self.steps == 0 && report.epoch + 1 == self.epochs,
            Progress::Step(step) => {
                self.steps > 0 && (step.epoch, step.step) == (self.epochs, self.steps)
            }
            _ => false,
        };
        if now {
            self.limits.interrupt.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

/// The newest checkpoint: all that must be the same, bit for bit.
pub fn numbers(run: &Path) -> (u64, Checkpoint) {
    let loaded = load_checkpoint(run).unwrap().expect("there is a checkpoint");
    let mut checkpoint = loaded.checkpoint;
    // How long it took and how long the log is do not belong to the numbers.
    checkpoint.state.log_bytes = 0;
    checkpoint.state.training["epoch_seconds"] = 0.into();
    (loaded.stamp.number, checkpoint)
}

pub fn run_path(runs: &Path) -> PathBuf {
    runs.join("tiny")
}
