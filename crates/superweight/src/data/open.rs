//! Opens a data set: known sets from their official files, packed pictures, and the embedded images.

use std::path::Path;

use super::dataset::Dataset;
use super::error::DataError;
use super::images::Images;
use super::pictures::own::OwnSet;
use super::sources::catalogue::{Description, Entry, Layout, find};
use super::sources::{cifar, embedded, idx, source};

impl Dataset {
    /// Opens a data set by name from the data folder (which the embedded one does not need).
    pub fn open(name: &str, folder: &Path) -> Result<Self, DataError> {
        let entry = match find(name) {
            Ok(entry) => entry,
            Err(unknown) => return OwnSet::known(name, folder, unknown)?.read(folder),
        };
        let place = folder.join(entry.folder);
        if entry.layout != Layout::Embedded && !place.exists() {
            return Err(DataError::NotFetched { name: name.to_owned(), folder: folder.to_owned() });
        }
        Self::read(entry, &place)
    }

    /// Reads a data set from a folder, file or archive.
    pub fn read(entry: &Entry, from: &Path) -> Result<Self, DataError> {
        let files = match entry.layout {
            Layout::Embedded => vec![],
            Layout::Cifar { .. } | Layout::Idx => source::collect(entry, from)?,
        };
        Self::from_files(entry, &files)
    }

    /// From the files of the entry, in its order.
    pub(super) fn from_files(entry: &Entry, files: &[source::Found]) -> Result<Self, DataError> {
        let mut parts = [Images::default(), Images::default()];
        match entry.layout {
            Layout::Embedded => parts = embedded::fashion_mnist_10k(),
            Layout::Cifar { label_bytes, .. } => {
                for (file, found) in entry.files.iter().zip(files) {
                    let record = cifar::Record {
                        label_bytes,
                        shape: entry.shape,
                        classes: entry.classes.len(),
                    };
                    record.read(&found.path, &found.bytes, &mut parts[file.part as usize])?;
                }
            }
            Layout::Idx => {
                for (file, found) in entry.files.chunks(2).zip(files.chunks(2)) {
                    let into = &mut parts[file[0].part as usize];
                    into.pixels = idx::images(&found[0].path, &found[0].bytes, entry.shape)?.into();
                    let count = into.pixels.len() / (entry.shape.height * entry.shape.width);
                    into.labels =
                        idx::labels(&found[1].path, &found[1].bytes, count, entry.classes.len())?;
                }
            }
        }
        let [train, test] = parts;
        let Description { name, shape, classes, normalization, .. } = entry.describe();
        Ok(Self { name, shape, classes, train, test, normalization })
    }
}
