//! Opens a data set: known sets from their official files, packed pictures, or the embedded images.

use std::path::Path;

use super::dataset::Dataset;
use super::error::DataError;
use super::images::Images;
use super::pictures::own::OwnSet;
use super::sources::catalog::{Description, Entry, Layout, find};
#[cfg(feature = "embedded-data")]
use super::sources::embedded;
use super::sources::{cifar, idx, source};

impl Dataset {
    /// Opens a data set by name from the data folder; the embedded data set needs no folder.
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

    /// Reads a known data set from a folder, file or archive.
    pub fn read(entry: &Entry, from: &Path) -> Result<Self, DataError> {
        let files = match entry.layout {
            Layout::Embedded => vec![],
            Layout::Cifar { .. } | Layout::Idx => source::collect(entry, from)?,
        };
        Self::from_files(entry, &files)
    }

    /// Parses the files of a known data set, given in the order of the entry.
    pub(super) fn from_files(entry: &Entry, files: &[source::Found]) -> Result<Self, DataError> {
        let mut splits = [Images::default(), Images::default()];
        match entry.layout {
            Layout::Embedded => splits = embedded_images(entry)?,
            Layout::Cifar { label_bytes, .. } => {
                for (file, found) in entry.files.iter().zip(files) {
                    let record = cifar::Record {
                        label_bytes,
                        shape: entry.shape,
                        classes: entry.classes.len(),
                    };
                    record.read(&found.path, &found.bytes, &mut splits[file.split as usize])?;
                }
            }
            Layout::Idx => {
                for (file, found) in entry.files.chunks(2).zip(files.chunks(2)) {
                    let into = &mut splits[file[0].split as usize];
                    into.pixels = idx::images(&found[0].path, &found[0].bytes, entry.shape)?.into();
                    let count = into.pixels.len() / (entry.shape.height * entry.shape.width);
                    into.labels =
                        idx::labels(&found[1].path, &found[1].bytes, count, entry.classes.len())?;
                }
            }
        }
        let [train, test] = splits;
        let Description { name, shape, classes, normalization, .. } = entry.describe();
        Ok(Self { name, shape, classes, train, test, normalization })
    }
}

/// Images inside the program.
#[cfg(feature = "embedded-data")]
fn embedded_images(_: &Entry) -> Result<[Images; 2], DataError> {
    Ok(embedded::fashion_mnist_10k())
}

/// Fails: this program was built without the images.
#[cfg(not(feature = "embedded-data"))]
fn embedded_images(entry: &Entry) -> Result<[Images; 2], DataError> {
    Err(DataError::NotEmbedded { name: entry.name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::images::Split;
    use crate::data::testing::{Folder, cifar_entry, idx_entry};

    #[test]
    fn cifar_and_idx_folders_are_read_whole() {
        for (fixture, label) in [(cifar_entry(), 2), (idx_entry(), 1)] {
            let folder = Folder::new("dataset-read");
            fixture.write(&folder.0);
            let data = Dataset::read(&fixture.entry, &folder.0).unwrap();
            assert_eq!((data.train.len(), data.test.len()), fixture.entry.images);
            assert_eq!(data.train.pixels.len(), data.train.len() * data.image_len());
            assert_eq!(data.train.labels[label], fixture.label(label), "{}", data.name);
            assert_eq!(data.split(Split::Test).image(1).len(), data.image_len());
        }
    }

    #[test]
    fn a_missing_data_set_is_an_error_with_the_command_that_fetches_it() {
        let folder = Path::new("/nowhere");
        assert_eq!(
            Dataset::open("cifar-100", folder).unwrap_err().to_string(),
            "cifar-100 is not in /nowhere: 'swn data fetch cifar-100' downloads it, '--from PATH' takes files \
             already there"
        );
    }

    #[cfg(feature = "embedded-data")]
    #[test]
    fn the_embedded_data_set_needs_no_folder() {
        let data = Dataset::open("fashion-mnist-10k", Path::new("/nowhere")).unwrap();
        assert_eq!((data.train.len(), data.test.len()), (8000, 2000));
    }

    #[cfg(not(feature = "embedded-data"))]
    #[test]
    fn a_program_without_embedded_data_says_so() {
        let error = Dataset::open("fashion-mnist-10k", Path::new("/nowhere")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("built without the feature 'embedded-data'"), "{text}");
    }
}
