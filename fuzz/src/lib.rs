//! What several targets need: the files of a small run, and a folder to put them in.
//!
//! `run/` was trained by `run/recipe.toml` (two tiny networks, a search, a refinement),
//! evaluated and profiled, so that every file of a run folder is there and none is longer than
//! 9 KB.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use sha2::{Digest, Sha256};
use superweight::plan::SharingPlan;
use superweight::recipe::{Recipe, Resolved};

/// Defines a target: an entry for libFuzzer, or without the feature `libfuzzer` a function
/// `run`, which `tests/replay.rs` calls.
#[macro_export]
macro_rules! target {
    (|$bytes:ident: &[u8]| $body:block) => {
        #[cfg(feature = "libfuzzer")]
        libfuzzer_sys::fuzz_target!(|$bytes: &[u8]| $body);

        #[cfg(not(feature = "libfuzzer"))]
        pub fn run($bytes: &[u8]) $body
    };
}

macro_rules! files {
    ($($name:literal),+ $(,)?) => { &[$(($name, include_bytes!(concat!("../run/", $name)))),+] };
}

/// The files of the run, by their place in its folder.
pub const FILES: &[(&str, &[u8])] = files![
    "resolved.toml",
    "recipe.toml",
    "log.jsonl",
    "statistics.safetensors",
    "anytime.json",
    "evaluation/test.json",
    "checkpoints/latest",
    "checkpoints/0004/SHA256SUMS",
    "checkpoints/0004/plan.json",
    "checkpoints/0004/state.json",
    "checkpoints/0004/bank.safetensors",
    "checkpoints/0004/members.safetensors",
    "checkpoints/0004/optimizer.safetensors",
];

/// The recipe with every default filled in.
pub static RESOLVED: LazyLock<Resolved> = LazyLock::new(|| resolved(&[]));

/// The same with the strategy that clusters coefficients.
pub static BY_MEANS: LazyLock<Resolved> =
    LazyLock::new(|| resolved(&["strategy=coefficient-clustering", "search.clusters=2"]));

fn resolved(set: &[&str]) -> Resolved {
    let recipe = Recipe::parse("resolved.toml", text("resolved.toml"), set);
    recipe.and_then(|recipe| recipe.resolve()).expect("the run's recipe is whole")
}

/// What is shared in the end.
pub static PLAN: LazyLock<SharingPlan> = LazyLock::new(|| {
    SharingPlan::from_json(text("checkpoints/0004/plan.json")).expect("the run's plan is whole")
});

fn text(name: &str) -> &'static str {
    let (_, bytes) = FILES.iter().find(|(known, _)| *known == name).expect("a file of the run");
    std::str::from_utf8(bytes).expect("it is text")
}

/// The run in a folder of this process, in memory where the system has such a place.
pub static RUN: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let run = parent.join(format!("superweight-fuzz-{}", std::process::id()));
    for (name, bytes) in FILES {
        put(&run.join(name), bytes);
    }
    run
});

/// Writes a file, and the folder it is in.
pub fn put(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("a file is in a folder"))
        .expect("the folder can be made");
    fs::write(path, bytes).expect("the file can be written");
}

/// As `SHA256SUMS` has it.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
