//! The seeds of `fuzz/` are valid: every reader accepts its seeds, so that fuzzing starts behind
//! the headers. A seed whose name begins with `bad-` was harmful once and must be an error.
//!
//! Layouts that only `--cfg fuzzing` opens (`archive`, `images`, `pickle`, `tuned`) have tests
//! beside their readers.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use superweight::data::{Picture, npy_rows_of};
use superweight::evaluate::{Classes, Predictions};
use superweight::infer::anytime::Profile;
use superweight::plan::SharingPlan;
use superweight::recipe::Recipe;
use superweight::run::{parse_log, safetensors};
use superweight::search::Statistics;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Reads all seeds of a target, of which there must be at least `least`.
fn check(target: &str, least: usize, read: impl Fn(&Path, &[u8]) -> Outcome) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let seeds: Vec<PathBuf> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(seeds.len() >= least, "{target} has {} seeds", seeds.len());
    for seed in seeds {
        let outcome = read(&seed, &fs::read(&seed).unwrap());
        let bad = seed.file_name().unwrap().to_str().unwrap().starts_with("bad-");
        match outcome {
            Ok(()) => assert!(!bad, "{} is accepted", seed.display()),
            Err(error) => assert!(bad, "{}: {error}", seed.display()),
        }
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn binary_seeds_are_accepted() {
    check("safetensors", 2, |path, bytes| Ok(safetensors::from_bytes(path, bytes).map(drop)?));
    check("predictions", 1, |path, bytes| Ok(Predictions::from_bytes(path, bytes).map(drop)?));
    check("classes", 3, |path, bytes| {
        // The target compresses uncompressed seeds too.
        let packed = match bytes.starts_with(&[0x1f, 0x8b]) {
            true => bytes.to_vec(),
            false => {
                let mut packer = GzEncoder::new(vec![], Compression::fast());
                packer.write_all(bytes)?;
                packer.finish()?
            }
        };
        Ok(Classes::from_bytes(path, &packed).map(drop)?)
    });
    check("statistics", 2, |path, bytes| {
        let statistics = Statistics::from_tensors(&safetensors::from_bytes(path, bytes)?)?;
        assert!(statistics.search.is_some(), "the file has statistics of a search");
        Ok(())
    });
    check("npy", 3, |path, bytes| {
        let rows = |row: &[usize]| npy_rows_of(path, Cursor::new(bytes), row, 1, 3);
        Ok(rows(&[2, 2, 3]).or_else(|_| rows(&[])).map(drop)?)
    });
    check("picture", 13, |path, bytes| Ok(Picture::decode(path, bytes).map(drop)?));
}

#[test]
fn text_seeds_are_accepted() {
    check("plan", 5, |_, bytes| Ok(SharingPlan::from_json(text(bytes)).map(drop)?));
    check("profile", 2, |path, bytes| Ok(Profile::from_json(path, text(bytes)).map(drop)?));
    check("log", 1, |path, bytes| {
        assert!(parse_log(path, bytes)?.len() > 3);
        Ok(())
    });
    // The target splits its input in the same way.
    check("recipe", 4, |_, bytes| {
        let (flags, file): (Vec<_>, Vec<_>) =
            text(bytes).lines().partition(|line| line.starts_with("--set "));
        let flags: Vec<_> = flags.into_iter().map(|line| &line["--set ".len()..]).collect();
        Ok(Recipe::parse("seed.toml", &file.join("\n"), &flags)?.resolve().map(drop)?)
    });
}
