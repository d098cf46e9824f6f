//! The layouts of data sets as functions of bytes, for the targets in `fuzz/` (`--cfg fuzzing`
//! comes from cargo-fuzz).
//!
//! Fuzzers would not reach the sizes of real data sets. Two small ones with four images of 2×2 each
//! are read by the code that reads the real ones. Other builds of the library lack this module.

use std::io::Cursor;
use std::path::Path;

use superweight_plan::arch::ImageShape;

use super::dataset::Dataset;
use super::error::DataError;
use super::images::{Normalization, Split};
use super::sources::catalog::{Entry, FileEntry, Layout};
use super::sources::python;
use super::sources::source;
use super::sources::source::Found;

const SIDE: usize = 2;
const IMAGES: usize = 2;
/// Bytes of a record: coarse label, fine label, three planes.
const RECORD: usize = 2 + 3 * SIDE * SIDE;

const fn file(
    name: &'static str,
    bytes: usize,
    split: Split,
    python: Option<&'static str>,
) -> FileEntry {
    FileEntry { name, bytes: bytes as u64, sha256: "", split, python }
}

/// Data set of two files with two records each; `train` and `test` in the Python layout.
pub static CIFAR: Entry = Entry {
    name: "small-cifar",
    folder: "small-cifar",
    layout: Layout::Cifar { label_bytes: 2, python_folder: "small-cifar-python" },
    files: &[
        file("train.bin", IMAGES * RECORD, Split::Train, Some("train")),
        file("test.bin", IMAGES * RECORD, Split::Test, Some("test")),
    ],
    addresses: &[],
    shape: ImageShape { channels: 3, height: SIDE, width: SIDE },
    classes: &["a", "b", "c"],
    images: (IMAGES, IMAGES),
    normalization: Normalization::fixed(&[0.0; 3], &[1.0; 3]),
};

/// Data set of two files of images and two of labels.
pub static IDX: Entry = Entry {
    name: "small-idx",
    folder: "small-idx",
    layout: Layout::Idx,
    files: &[
        file("train-images", 16 + IMAGES * SIDE * SIDE, Split::Train, None),
        file("train-labels", 8 + IMAGES, Split::Train, None),
        file("test-images", 16 + IMAGES * SIDE * SIDE, Split::Test, None),
        file("test-labels", 8 + IMAGES, Split::Test, None),
    ],
    addresses: CIFAR.addresses,
    shape: ImageShape { channels: 1, height: SIDE, width: SIDE },
    classes: CIFAR.classes,
    images: CIFAR.images,
    normalization: Normalization::fixed(&[0.0], &[1.0]),
};

/// Reads a tar archive, compressed or not, with the files of a data set.
pub fn archive(entry: &Entry, bytes: &[u8]) -> Result<Dataset, DataError> {
    let files = source::from_reader(entry, Path::new("fuzz"), Cursor::new(bytes.to_vec()))?;
    Dataset::from_files(entry, &files)
}

/// Reads the files of a data set, of any sizes.
pub fn files(entry: &Entry, files: &[&[u8]]) -> Result<Dataset, DataError> {
    let found = |bytes: &&[u8]| Found { path: "fuzz".into(), bytes: bytes.to_vec() };
    Dataset::from_files(entry, &files.iter().map(found).collect::<Vec<_>>())
}

/// Converts a pickled batch of CIFAR's Python layout.
pub fn pickle(bytes: &[u8], label_bytes: usize) -> Result<Vec<u8>, DataError> {
    python::to_binary(Path::new("fuzz"), bytes, label_bytes)
}
