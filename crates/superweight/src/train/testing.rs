//! A run small enough for hundreds of repetitions: two members on 4×4 pixels, with a data set of
//! its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use superweight_engine::CpuDevice;

use super::{Limits, Observer, Outcome, Progress, Request, Session, TrainError};
use crate::data::Dataset;
use crate::data::testing::dataset;
use crate::recipe::{Recipe, Resolved};
use crate::run::{Checkpoint, Disk, Existing, RunFolder, load_checkpoint};

/// Two members, shared parameters, three steps per epoch. Cutout is set because its default is
/// larger than the image.
const RECIPE: &str = "
name = 'tiny'
members = ['wrn-10-1', 'cnn-4-8']
budget = '60%'
strategy = 'no-search'
plan = { tiling = 'grid', block = 8, scale = 'balanced', share_classifier = false }
data = { name = 'fashion-mnist-10k', validation = 6, padding = 1, cutout = 2 }
train = { batch_size = 8, bn_batch_size = 4, epochs = 4, schedule = 'constant' }
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

/// Trains a run without a stop.
pub fn unbroken(runs: &Path, resolved: &Resolved) -> Outcome {
    create(Disk::default(), runs, resolved).unwrap().run(&Limits::default(), &mut ()).unwrap()
}

/// Stops a run after `epochs` epochs and `steps` steps of the next one.
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

/// Newest checkpoint, without the parts that may differ between equal runs.
pub fn newest_checkpoint(run: &Path) -> (u64, Checkpoint) {
    let loaded = load_checkpoint(run).unwrap().expect("there is a checkpoint");
    let mut checkpoint = loaded.checkpoint;
    // Times and the length of the log may differ.
    checkpoint.state.log_bytes = 0;
    checkpoint.state.training["epoch_seconds"] = 0.into();
    (loaded.stamp.number, checkpoint)
}

pub fn run_path(runs: &Path) -> PathBuf {
    runs.join("tiny")
}
