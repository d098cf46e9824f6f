//! Packed data sets in the data folder: a description and four numpy files, which `swn data pack`
//! writes.
//!
//! ```text
//! birds/ set.json
//!        train-images.npy [image][row][column][channel]    train-labels.npy
//!        test-images.npy                                   test-labels.npy
//! ```
//!
//! Many programs can read numpy files. A run keeps a copy of `set.json`, so that its members can
//! predict on machines without the pictures, and its digest, so that training continues with the
//! same images only. Opening compares all digests. Images that would take most of the memory stay
//! in their files; only `swn data verify` compares the digests of those.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use superweight_engine::MappedFile;
use superweight_plan::arch::ImageShape;

use crate::data::DataError;
use crate::data::bytes::{Bytes, memory_limit};
use crate::data::dataset::Dataset;
use crate::data::images::{Images, Normalization};
use crate::data::sources::catalog::{Description, is_taken};
use crate::data::sources::fetch::write_file;
use crate::data::sources::staging::Staging;
use crate::data::sources::verify::{FileState, State, hex_sha256, verify_file};
use crate::fs::{check_name, read_at_most};

/// Name of the description in the folder of a data set, and in runs.
pub const SET: &str = "set.json";
/// Version of the description.
const VERSION: u64 = 1;
/// Size in bytes of the largest description; thousands of classes take some hundred kilobytes.
const LARGEST: u64 = 1 << 24;
/// Largest number of classes.
pub(in crate::data) const MAX_CLASSES: usize = 10_000;
/// Size in bytes of the largest file, so that offsets fit into memory addresses.
const MAX_BYTES: usize = isize::MAX as usize / 4;
/// Largest height and width of an image in pixels.
pub const MAX_SIDE: usize = 1024;
/// Size of the header of a file of images in bytes, which does not depend on their number.
pub(in crate::data) const HEADER: usize = 128;
/// Names of the files.
pub(in crate::data) const FILES: [&str; 4] =
    ["train-images.npy", "train-labels.npy", "test-images.npy", "test-labels.npy"];

/// A packed data set: its description and the digests of its files.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnSet {
    /// Description of the images.
    pub description: Description,
    /// SHA-256 of its files, in the order of `FILES`.
    sha256: [String; 4],
}

/// The contents of `set.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u64,
    name: String,
    channels: usize,
    height: usize,
    width: usize,
    train: usize,
    test: usize,
    mean: Vec<f32>,
    deviation: Vec<f32>,
    sha256: [String; 4],
    classes: Vec<String>,
}

impl OwnSet {
    /// Reads and validates a description.
    pub fn load(file: &Path) -> Result<Self, DataError> {
        let text = read_at_most(file, LARGEST).map_err(|error| DataError::read(file, error))?;
        let wrong = |why: String| DataError::Damaged { file: file.to_owned(), why };
        let written: Written =
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        Self::check(written).map_err(wrong)
    }

    /// Validates a description; the error lacks the file.
    fn check(written: Written) -> Result<Self, String> {
        let Written { version, name, channels, height, width, train, test, .. } = written;
        let side = |side: usize| (1..=MAX_SIDE).contains(&side);
        let numbers =
            |values: &[f32]| values.len() == channels && values.iter().all(|v| v.is_finite());
        let mut once = written.classes.clone();
        once.sort_unstable();
        once.dedup();
        match () {
            () if version != VERSION => Err(format!("version {version}, where {VERSION} is known")),
            () if check_name(&name).is_err() => Err(format!("'{name}' cannot name a data set")),
            () if !matches!(channels, 1 | 3) || !side(height) || !side(width) => {
                Err(format!("images of {channels}×{height}×{width}"))
            }
            () if once.len() != written.classes.len() => Err("a class is there twice".into()),
            () if !(2..=MAX_CLASSES).contains(&once.len()) => {
                Err(format!("{} classes", once.len()))
            }
            () if train == 0 || test == 0 => {
                Err(format!("{train} training and {test} test images"))
            }
            () if train.max(test) > MAX_BYTES / (channels * height * width).max(2) => {
                Err("more images than memory has addresses".into())
            }
            () if !numbers(&written.mean) || !numbers(&written.deviation) => {
                Err("mean and deviation are not a number per channel".into())
            }
            () if written.deviation.iter().any(|&deviation| deviation <= 0.0) => {
                Err("a deviation is not above 0".into())
            }
            () => Ok(Self {
                description: Description {
                    name,
                    shape: ImageShape { channels, height, width },
                    classes: written.classes,
                    images: (train, test),
                    normalization: Normalization {
                        mean: written.mean.into(),
                        std: written.deviation.into(),
                    },
                },
                sha256: written.sha256,
            }),
        }
    }

    /// Finds a packed data set in the data folder by name; `None` if it does not exist.
    pub fn find(name: &str, folder: &Path) -> Result<Option<Self>, DataError> {
        let file = folder.join(name).join(SET);
        if check_name(name).is_err() || !file.is_file() {
            return Ok(None);
        }
        let set = Self::load(&file)?;
        match set.description.name == name {
            true => Ok(Some(set)),
            false => {
                let why =
                    format!("it describes '{}', and its folder is '{name}'", set.description.name);
                Err(DataError::Damaged { file, why })
            }
        }
    }

    /// Finds a packed data set, or returns the error `unknown` with the names of all packed data
    /// sets added.
    pub fn known(name: &str, folder: &Path, unknown: DataError) -> Result<Self, DataError> {
        Self::find(name, folder)?.ok_or_else(|| match unknown {
            _ if name == "imagenet" => DataError::NoImageNet { folder: folder.to_owned() },
            DataError::Unknown { name, known } => {
                let own: String =
                    Self::names(folder).iter().map(|own| format!(", {own}")).collect();
                DataError::Unknown { name, known: known + &own }
            }
            other => other,
        })
    }

    /// Names of all packed data sets in the data folder, sorted.
    pub fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<_> = names
            .filter(|name| check_name(name).is_ok() && folder.join(name).join(SET).is_file())
            .collect();
        names.sort_unstable();
        names
    }

    /// SHA-256 of the description, which contains the digests of all files.
    pub fn digest(&self) -> String {
        hex_sha256(&[self.to_json().as_bytes()])
    }

    /// The text of `set.json`.
    pub fn to_json(&self) -> String {
        let Description { name, shape, classes, images, normalization } = &self.description;
        let written = Written {
            version: VERSION,
            name: name.clone(),
            channels: shape.channels,
            height: shape.height,
            width: shape.width,
            train: images.0,
            test: images.1,
            mean: normalization.mean.to_vec(),
            deviation: normalization.std.to_vec(),
            sha256: self.sha256.clone(),
            classes: classes.clone(),
        };
        serde_json::to_string_pretty(&written).expect("names and numbers are JSON") + "\n"
    }

    /// Writes a data set into the data folder atomically, and returns its folder. An existing one
    /// of that name is replaced only if `replace` is true.
    pub fn save(data: &Dataset, to: &Path, replace: bool) -> Result<PathBuf, DataError> {
        Self::check_place(&data.name, to, replace)?;
        let staging = Staging::new(to, &data.name)?;
        for (name, images) in [(FILES[0], &data.train), (FILES[2], &data.test)] {
            let parts = [&header(data.shape, images.len())[..], &images.pixels];
            write_file(&staging.path.join(name), &parts)?;
        }
        Self::keep(data, staging, to, replace)
    }

    /// Adds labels and description to a hidden folder that has the files of images, and renames it.
    pub(in crate::data) fn keep(
        data: &Dataset,
        staging: Staging,
        to: &Path,
        replace: bool,
    ) -> Result<PathBuf, DataError> {
        let target = to.join(&data.name);
        let [train, test] = [&data.train, &data.test].map(|images| {
            images.labels.iter().flat_map(|label| label.to_le_bytes()).collect::<Vec<u8>>()
        });
        let contents = [&data.train.pixels[..], &train, &data.test.pixels, &test];
        let mut set = Self { description: data.description(), sha256: Default::default() };
        for (i, (header, _)) in set.headers_and_lengths().iter().enumerate() {
            let parts = [&header[..], contents[i]];
            set.sha256[i] = hex_sha256(&parts);
            if i % 2 == 1 {
                write_file(&staging.path.join(FILES[i]), &parts)?;
            }
        }
        write_file(&staging.path.join(SET), &[set.to_json().as_bytes()])?;
        match replace {
            true => staging.replace(&target)?,
            // Another process may have written it meanwhile.
            false => staging.place(&target)?,
        }
        Ok(target)
    }

    /// Fails unless a data set of this name may be written into the data folder; to call before
    /// packing, which may take hours.
    pub fn check_place(name: &str, to: &Path, replace: bool) -> Result<(), DataError> {
        let target = to.join(name);
        let why = match () {
            () if is_taken(name) => Some("a known set has this name"),
            () if name != "imagenet" && name.eq_ignore_ascii_case("imagenet") => {
                Some("recipes know it as 'imagenet'")
            }
            () if check_name(name).is_err() => Some(
                "it may have letters, digits, '.', '_' and '-', and begins with neither '.' nor '-'",
            ),
            () => None,
        };
        if let Some(why) = why {
            return Err(DataError::Name { name: name.to_owned(), why });
        }
        if target.symlink_metadata().is_ok() && !(replace && Self::is_alone(&target)) {
            let why = match replace {
                false => "choose another name, or replace a packed set with --replace",
                true => {
                    "it is no packed set, or has more in it, and is not replaced: choose another name"
                }
            };
            return Err(DataError::Exists { target, why });
        }
        Ok(())
    }

    /// Creates the data folder if necessary, and fails unless it can be written to; to call before
    /// packing.
    pub fn check_writable(name: &str, to: &Path) -> Result<(), DataError> {
        Staging::new(to, name).map(drop)
    }

    /// Whether a folder has a packed data set and nothing else. The folder of a run has a
    /// description too, and must not be replaced.
    fn is_alone(folder: &Path) -> bool {
        let named = |name: &std::ffi::OsStr| FILES.iter().chain([&SET]).any(|file| name == *file);
        let ours = |path: &Path| path.file_name().is_some_and(named) && path.is_file();
        let entries =
            fs::read_dir(folder).map(|entries| entries.flatten().all(|entry| ours(&entry.path())));
        entries.is_ok_and(|ours| ours) && folder.join(SET).is_file()
    }

    /// Size of all files in bytes.
    pub fn bytes(&self) -> u64 {
        self.headers_and_lengths()
            .iter()
            .map(|(header, length)| (header.len() + length) as u64)
            .sum()
    }

    /// Header of every file, and number of bytes after it.
    fn headers_and_lengths(&self) -> [(Vec<u8>, usize); 4] {
        let Description { shape, images: (train, test), .. } = self.description;
        let size = shape.channels * shape.height * shape.width;
        let images = |count: usize| (header(shape, count), count * size);
        let labels = |count: usize| (labels_header(count), count * 2);
        [images(train), labels(train), images(test), labels(test)]
    }

    /// Reads the data set from the data folder. Its images stay in their files if they are larger
    /// than `SWN_IMAGES_MIB`, otherwise than half of the memory.
    pub fn read(&self, folder: &Path) -> Result<Dataset, DataError> {
        self.read_within(folder, memory_limit()?)
    }

    /// Reads the data set, with images in memory if all files have at most `memory` bytes.
    fn read_within(&self, folder: &Path, memory: u64) -> Result<Dataset, DataError> {
        let stay = self.bytes() > memory;
        let place = folder.join(&self.description.name);
        let each = FILES.iter().zip(self.headers_and_lengths()).zip(&self.sha256);
        let mut contents = each.map(|((name, (header, length)), sha256)| {
            let file = place.join(name);
            let wrong = |why: String| DataError::Damaged { file: file.clone(), why };
            let failed = |error| DataError::read(&file, error);
            let mut reader = File::open(&file).map_err(failed)?;
            let (found, expected) =
                (reader.metadata().map_err(failed)?.len(), header.len() + length);
            if found != expected as u64 {
                return Err(wrong(format!("{found} bytes where {expected} are expected")));
            }
            let mut start = vec![0; header.len()];
            reader.read_exact(&mut start).map_err(failed)?;
            if start != header {
                return Err(wrong("an array of another shape".into()));
            }
            if stay && name.ends_with("images.npy") {
                let mapped = MappedFile::new(&reader, header.len(), length).map_err(failed)?;
                return Ok((file, Bytes::File(Arc::new(mapped))));
            }
            let mut bytes = vec![];
            if bytes.try_reserve_exact(length).is_err() {
                return Err(DataError::NoMemory { file, bytes: length });
            }
            bytes.resize(length, 0);
            reader.read_exact(&mut bytes).map_err(failed)?;
            if hex_sha256(&[&start, &bytes]) != *sha256 {
                return Err(wrong("other bytes than were packed".into()));
            }
            Ok((file, bytes.into()))
        });
        let mut split = || {
            let (_, pixels) = contents.next().expect("there are four files")?;
            let (file, labels) = contents.next().expect("there are four files")?;
            let labels: Vec<_> =
                labels.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
            let classes = self.description.classes.len();
            match labels.iter().position(|&label| usize::from(label) >= classes) {
                None => Ok(Images { pixels, labels }),
                Some(i) => {
                    let why = format!(
                        "label {} of image {i}, and there are {classes} classes",
                        labels[i]
                    );
                    Err(DataError::Damaged { file, why })
                }
            }
        };
        let (train, test) = (split()?, split()?);
        let Description { name, shape, classes, normalization, .. } = self.description.clone();
        Ok(Dataset { name, shape, classes, train, test, normalization })
    }

    /// Reads every file in the data folder and compares digests.
    pub fn verify(&self, folder: &Path) -> Vec<FileState> {
        let place = folder.join(&self.description.name);
        let sizes =
            self.headers_and_lengths().map(|(header, length)| (header.len() + length) as u64);
        let each = FILES.iter().zip(sizes).zip(&self.sha256);
        let with_advice = |file: FileState| {
            let why = match &file.state {
                State::Damaged(DataError::WrongSize { found, expected, .. }) => {
                    format!("{found} where {expected} are expected")
                }
                State::Damaged(DataError::Digest { .. }) => {
                    "other bytes than were packed".to_owned()
                }
                _ => return file,
            };
            let state = State::Damaged(DataError::Damaged { file: file.path.clone(), why });
            FileState { state, ..file }
        };
        let state = |((name, bytes), sha256): ((&&str, u64), &String)| {
            with_advice(verify_file(place.join(name), bytes, sha256))
        };
        each.map(state).collect()
    }
}

/// Header of a file of images.
pub(in crate::data) fn header(shape: ImageShape, images: usize) -> Vec<u8> {
    npy_header("|u1", &format!("({images}, {}, {}, {})", shape.height, shape.width, shape.channels))
}

/// Header of a file of labels.
fn labels_header(images: usize) -> Vec<u8> {
    npy_header("<u2", &format!("({images},)"))
}

/// Header of a numpy file, padded so that the data begin at a multiple of 64 bytes, as numpy does.
fn npy_header(descr: &str, shape: &str) -> Vec<u8> {
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    text.extend(std::iter::repeat_n(' ', length - 1 - text.len()));
    text.push('\n');
    [b"\x93NUMPY\x01\x00", &(length as u16).to_le_bytes()[..], text.as_bytes()].concat()
}

#[cfg(test)]
#[path = "own_tests.rs"]
mod tests;
