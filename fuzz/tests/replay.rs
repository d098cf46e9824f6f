//! Every file of `corpus/` through its target, without libFuzzer.
//!
//! `RUSTFLAGS="--cfg fuzzing" cargo test --manifest-path fuzz/Cargo.toml --no-default-features`
#![cfg(not(feature = "libfuzzer"))]

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

#[path = "../fuzz_targets/archive.rs"]
mod archive;
#[path = "../fuzz_targets/classes.rs"]
mod classes;
#[path = "../fuzz_targets/images.rs"]
mod images;
#[path = "../fuzz_targets/log.rs"]
mod log;
#[path = "../fuzz_targets/npy.rs"]
mod npy;
#[path = "../fuzz_targets/pickle.rs"]
mod pickle;
#[path = "../fuzz_targets/picture.rs"]
mod picture;
#[path = "../fuzz_targets/plan.rs"]
mod plan;
#[path = "../fuzz_targets/predictions.rs"]
mod predictions;
#[path = "../fuzz_targets/profile.rs"]
mod profile;
#[path = "../fuzz_targets/recipe.rs"]
mod recipe;
#[path = "../fuzz_targets/results.rs"]
mod results;
#[path = "../fuzz_targets/run.rs"]
mod run;
#[path = "../fuzz_targets/safetensors.rs"]
mod safetensors;
#[path = "../fuzz_targets/statistics.rs"]
mod statistics;
#[path = "../fuzz_targets/tuned.rs"]
mod tuned;

const TARGETS: &[(&str, fn(&[u8]))] = &[
    ("archive", archive::run),
    ("classes", classes::run),
    ("images", images::run),
    ("log", log::run),
    ("npy", npy::run),
    ("pickle", pickle::run),
    ("picture", picture::run),
    ("plan", plan::run),
    ("predictions", predictions::run),
    ("profile", profile::run),
    ("recipe", recipe::run),
    ("results", results::run),
    ("run", run::run),
    ("safetensors", safetensors::run),
    ("statistics", statistics::run),
    ("tuned", tuned::run),
];

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

#[test]
fn no_file_of_the_corpus_does_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut failed = vec![];
    for (name, run) in TARGETS {
        let files = files(&corpus.join(name));
        assert!(!files.is_empty(), "{name} has no corpus");
        for file in files {
            let bytes = fs::read(&file).unwrap();
            if catch_unwind(|| run(&bytes)).is_err() {
                failed.push(file);
            }
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn every_target_and_every_corpus_is_replayed() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let stems = |folder: &str| {
        let stem = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
        files(&here.join(folder)).into_iter().map(stem).collect::<Vec<_>>()
    };
    let names: Vec<_> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(stems("fuzz_targets"), names);
    assert_eq!(stems("corpus"), names);
}
