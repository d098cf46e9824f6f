//! Errors of data sets, each with file, place and what to do.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why data cannot be fetched, packed, read or divided.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DataError {
    /// No data set has this name.
    #[error("unknown data set '{name}': there are {known}; 'swn data pack' makes one of pictures")]
    Unknown {
        /// The name.
        name: String,
        /// Names of all data sets.
        known: String,
    },
    /// A known data set is missing in the data folder.
    #[error(
        "{name} is not in {}: 'swn data fetch {name}' downloads it, '--from PATH' takes files already there",
        folder.display()
    )]
    NotFetched {
        /// Name of the data set.
        name: String,
        /// The data folder.
        folder: PathBuf,
    },
    /// Some files of a data set are missing.
    #[error("{} has no {missing}: {name} consists of {needed}", place.display())]
    Missing {
        /// Folder or archive that was read.
        place: PathBuf,
        /// The first missing file.
        missing: String,
        /// Name of the data set.
        name: String,
        /// Names of all its files.
        needed: String,
    },
    /// A path is neither an archive nor a file of the data set.
    #[error("{} is neither an archive (.tar.gz) nor one of {needed}: give the folder or archive of {name}", path.display())]
    NotData {
        /// The path.
        path: PathBuf,
        /// Name of the data set.
        name: String,
        /// Names of all its files.
        needed: String,
    },
    /// A file has another size: it was cut off, or is another file.
    #[error("{}: {found} where {expected} bytes are expected; fetch it again", file.display())]
    WrongSize {
        /// The file, or `archive/member`.
        file: PathBuf,
        /// Size that was found, in words.
        found: String,
        /// Expected size in bytes.
        expected: u64,
    },
    /// A file breaks the rules of its format.
    #[error("{}, byte {offset}: expected {expected}, found {found}", file.display())]
    Malformed {
        /// The file, or `archive/member`.
        file: PathBuf,
        /// Byte offset in the uncompressed file.
        offset: u64,
        /// What the format requires, in words.
        expected: String,
        /// What the file has, in words.
        found: String,
    },
    /// A label has no class.
    #[error("{}, byte {offset}: label {label} is out of range: there are {classes} classes", file.display())]
    Label {
        /// The file.
        file: PathBuf,
        /// Byte offset in the uncompressed file.
        offset: u64,
        /// The label.
        label: u64,
        /// Number of classes; labels must be below it.
        classes: usize,
    },
    /// A file has the right size, but its digest differs from the official one.
    #[error(
        "{}: SHA-256 {found} where {expected} is expected: the file is damaged or of another release; fetch it again",
        file.display()
    )]
    Digest {
        /// The file, or `archive/member`.
        file: PathBuf,
        /// SHA-256 of the official file.
        expected: String,
        /// SHA-256 of this file.
        found: String,
    },
    /// A file operation failed.
    #[error("{} could not be {doing}{advice}", path.display())]
    Io {
        /// Participle that completes the message "could not be …": read, written.
        doing: &'static str,
        /// Advice that follows the message, with a separator in front; may be empty.
        advice: String,
        /// File or folder of the operation.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A download failed.
    #[error(
        "{address} could not be downloaded: {why}; files already there are taken with '--from PATH'"
    )]
    Download {
        /// The address.
        address: String,
        /// Message of the program that downloads.
        why: String,
    },
    /// An environment variable has an invalid value.
    #[error("{name}={value}: {expected} is expected")]
    Variable {
        /// Name of the variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// Valid values, in words.
        expected: &'static str,
    },
    /// No environment variable leads to a data folder.
    #[error("no folder for data: set SWN_DATA (or HOME)")]
    NoFolder,
    /// A packed data set cannot have this name.
    #[error("'{name}' cannot name a set of your own: {why}")]
    Name {
        /// The name.
        name: String,
        /// The rule that it breaks.
        why: &'static str,
    },
    /// A data set or something else exists under the name of a new one.
    #[error("{} is there already: {why}", target.display())]
    Exists {
        /// Folder of the new data set.
        target: PathBuf,
        /// Why it is not replaced, or what to do.
        why: &'static str,
    },
    /// A file of a packed data set was changed after packing.
    #[error("{}: {why}: pack the set again ('swn data pack --replace')", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The packed data set of a run is missing in the data folder.
    #[error(
        "{name} is not in {}: copy its folder there, or pack the same pictures again ('swn data pack {name}')",
        folder.display()
    )]
    NotPacked {
        /// Name of the data set.
        name: String,
        /// The data folder.
        folder: PathBuf,
    },
    /// Memory has no room for the images.
    #[error(
        "{}: {bytes} bytes are more than there is memory; with SWN_IMAGES_MIB=0 images are read from the disk as they are drawn",
        file.display()
    )]
    NoMemory {
        /// File with the images.
        file: PathBuf,
        /// Size of the images in bytes.
        bytes: usize,
    },
    /// The caller stopped packing.
    #[error("interrupted: nothing was packed")]
    Interrupted,
    /// ImageNet was requested, which no address offers, and is missing in the data folder.
    #[error(
        "imagenet is not in {}: 'swn data pack imagenet --from FOLDER --size 224' makes it of train/ and val/ with a folder per class",
        folder.display()
    )]
    NoImageNet {
        /// The data folder.
        folder: PathBuf,
    },
    /// A packed data set has the name of the run's one, but other images.
    #[error(
        "{name} in {} is not the set that the run was begun with (data.digest): set SWN_DATA to the folder that has it, \
         pack the same pictures again, or begin a new run with a recipe that has no data.digest",
        folder.display()
    )]
    OtherSet {
        /// Name of the data set.
        name: String,
        /// The data folder.
        folder: PathBuf,
    },
    /// A folder does not have pictures in one folder per class.
    #[error("{}: {why}", from.display())]
    Pictures {
        /// The folder.
        from: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// Some pictures cannot be decoded.
    #[error(
        "{count} of {of} pictures cannot be read:{first}\nfix or remove them, or leave them out with --skip-unreadable"
    )]
    Unreadable {
        /// Number of these pictures.
        count: usize,
        /// Number of all pictures.
        of: usize,
        /// Errors of the first of them, each after a line break.
        first: String,
    },
    /// There are not enough training images for the validation images.
    #[error(
        "{requested} validation images cannot be taken from {images} training images: at least one must remain"
    )]
    Validation {
        /// Requested number of validation images.
        requested: usize,
        /// Number of training images.
        images: usize,
    },
    /// This program lacks the embedded data set.
    #[error(
        "{name} is not in this program, which was built without the feature 'embedded-data': \
         use another data set, such as fashion-mnist ('swn data fetch fashion-mnist')"
    )]
    NotEmbedded {
        /// Name of the data set.
        name: &'static str,
    },
    /// The batch size is 0 or exceeds the number of images.
    #[error("a batch of {batch} cannot be made of {images} images: choose between 1 and {images}")]
    BatchSize {
        /// The batch size.
        batch: usize,
        /// Number of images.
        images: usize,
    },
}

impl DataError {
    /// Builds a [`DataError::Malformed`].
    pub(super) fn malformed(
        file: &Path,
        offset: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let (expected, found) = (expected.into(), found.into());
        Self::Malformed { file: file.to_owned(), offset: offset as u64, expected, found }
    }

    /// The message with the error of the operating system, on one line.
    pub fn with_cause(&self) -> String {
        match self {
            Self::Io { source, .. } => format!("{self}: {source}"),
            _ => self.to_string(),
        }
    }

    /// Builds a [`DataError::Io`] for a file that cannot be read; for `map_err`.
    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        Self::Io { doing: "read", advice: String::new(), path: path.to_owned(), source }
    }
}
