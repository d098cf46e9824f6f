//! Sample checkpoints for tests.

use std::fs;
use std::path::Path;

use super::{Checkpoint, Checkpoints, Disk, Loaded, Tensor};
use crate::data::testing::Folder;

/// Folder in memory if the system has one: the tests flush thousands of times, and observe flushes
/// by a hook.
pub(super) fn quick_folder() -> Folder {
    let name = format!("superweight-quick-{}-{}", std::process::id(), random(u64::MAX));
    let shared = Path::new("/dev/shm").join(name);
    match fs::create_dir(&shared) {
        Ok(()) => Folder(shared),
        Err(_) => Folder::new("quick"),
    }
}

/// Random number in `0..below`.
pub(super) fn random(below: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) % below
}

/// Checkpoint whose tensors depend on `number`.
pub(super) fn sample(number: u64, size: usize) -> Checkpoint {
    let mut checkpoint =
        Checkpoint { plan: format!("{{\"number\": {number}}}\n"), ..Checkpoint::default() };
    let values = |offset: u64| {
        (0..size as u64).map(|i| (number * 1000 + offset + i) as f32).collect::<Vec<_>>()
    };
    checkpoint.bank.insert("templates", Tensor::new(&[size], values(1)));
    checkpoint.members.insert("0.bn.mean", Tensor::new(&[size], values(2)));
    checkpoint.optimizer.insert("templates", Tensor::new(&[size], values(3)));
    checkpoint.state.training = serde_json::json!({ "epoch": number });
    checkpoint
}

/// Elements of each tensor.
pub(super) const SIZE: usize = 100;

/// Compares a checkpoint with the sample of its number.
pub(super) fn check(loaded: &Loaded) {
    assert_eq!(
        loaded.checkpoint,
        sample(loaded.stamp.number, SIZE),
        "checkpoint {}",
        loaded.stamp.number
    );
}

/// Sorted names in a folder.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Folder in which checkpoints of these numbers were saved.
pub(super) fn saved(numbers: impl IntoIterator<Item = u64>) -> (Folder, Checkpoints) {
    let folder = quick_folder();
    let checkpoints = Checkpoints::new(folder.0.join("checkpoints"), Disk::default());
    numbers.into_iter().for_each(|number| checkpoints.save(number, &sample(number, SIZE)).unwrap());
    (folder, checkpoints)
}
