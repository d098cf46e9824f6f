//! Everything that can be wrong with data, with file, place and what to do.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why data could not be fetched, read or divided.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DataError {
    /// No data set has this name.
    #[error("unknown data set '{name}': there are {known}; 'swn data pack' makes one of pictures")]
    Unknown {
        /// As typed.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A known data set that is not in the folder.
    #[error(
        "{name} is not in {}: 'swn data fetch {name}' downloads it, '--from PATH' takes files already there",
        folder.display()
    )]
    NotFetched {
        /// The data set.
        name: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// Some files of a set are there, others are not.
    #[error("{} has no {missing}: {name} consists of {needed}", place.display())]
    Missing {
        /// The folder or archive.
        place: PathBuf,
        /// The first file that is not there.
        missing: String,
        /// The data set.
        name: String,
        /// All its files.
        needed: String,
    },
    /// A path that is nothing of the data set.
    #[error("{} is neither an archive (.tar.gz) nor one of {needed}: give the folder or archive of {name}", path.display())]
    NotData {
        /// As given.
        path: PathBuf,
        /// The data set.
        name: String,
        /// Its files.
        needed: String,
    },
    /// Cut short, or not this file.
    #[error("{}: {found} where {expected} bytes are expected; fetch it again", file.display())]
    WrongSize {
        /// The file, or `archive/member`.
        file: PathBuf,
        /// What was found, in words.
        found: String,
        /// Bytes it should have.
        expected: u64,
    },
    /// Bytes that do not mean what they should.
    #[error("{}, byte {offset}: expected {expected}, found {found}", file.display())]
    Malformed {
        /// The file, or `archive/member`.
        file: PathBuf,
        /// Place in the (unpacked) file.
        offset: u64,
        /// In words.
        expected: String,
        /// In words.
        found: String,
    },
    /// A label of no class.
    #[error("{}, byte {offset}: label {label} is out of range: there are {classes} classes", file.display())]
    Label {
        /// The file.
        file: PathBuf,
        /// Place in the (unpacked) file.
        offset: u64,
        /// As read.
        label: u64,
        /// Labels are below this.
        classes: usize,
    },
    /// The right size and the wrong bytes.
    #[error(
        "{}: SHA-256 {found} where {expected} is expected: the file is damaged or of another release; fetch it again",
        file.display()
    )]
    Digest {
        /// The file, or `archive/member`.
        file: PathBuf,
        /// Of the official file.
        expected: String,
        /// Of this one.
        found: String,
    },
    /// The system said no.
    #[error("{} could not be {doing}{advice}", path.display())]
    Io {
        /// read, written, …
        doing: &'static str,
        /// What to do, or nothing; begins with a separator.
        advice: String,
        /// The file or folder.
        path: PathBuf,
        /// As the system says it.
        source: io::Error,
    },
    /// The address gave nothing.
    #[error(
        "{address} could not be downloaded: {why}; files already there are taken with '--from PATH'"
    )]
    Download {
        /// The address.
        address: String,
        /// What the downloading program said.
        why: String,
    },
    /// A variable of the environment says what it cannot mean.
    #[error("{name}={value}: {expected} is expected")]
    Variable {
        /// Of the environment.
        name: &'static str,
        /// What it is set to.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// Without a home there is no standard folder.
    #[error("no folder for data: set SWN_DATA (or HOME)")]
    NoFolder,
    /// A name that no set of one's own can have.
    #[error("'{name}' cannot name a set of your own: {why}")]
    Name {
        /// As typed.
        name: String,
        /// Which rule it breaks.
        why: &'static str,
    },
    /// A set of that name was packed before, or something else lies there.
    #[error("{} is there already: {why}", target.display())]
    Exists {
        /// The set's folder.
        target: PathBuf,
        /// What to do.
        why: &'static str,
    },
    /// A file of a packed set that is not as it was written.
    #[error("{}: {why}: pack the set again ('swn data pack --replace')", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// In words.
        why: String,
    },
    /// A run's set of pictures is not in the data folder.
    #[error(
        "{name} is not in {}: copy its folder there, or pack the same pictures again ('swn data pack {name}')",
        folder.display()
    )]
    NotPacked {
        /// The data set.
        name: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// More images than memory holds.
    #[error(
        "{}: {bytes} bytes are more than there is memory; with SWN_IMAGES_MIB=0 images are read from the disk as they are drawn",
        file.display()
    )]
    NoMemory {
        /// Of the images.
        file: PathBuf,
        /// How many.
        bytes: usize,
    },
    /// Somebody wants no more pictures to be packed.
    #[error("interrupted: nothing was packed")]
    Interrupted,
    /// Pictures that nobody can fetch.
    #[error(
        "imagenet is not in {}: 'swn data pack imagenet --from FOLDER --size 224' makes it of train/ and val/ with a folder per class",
        folder.display()
    )]
    NoImageNet {
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// A set of the same name and other images.
    #[error(
        "{name} in {} is not the set that the run was begun with (data.digest): set SWN_DATA to the folder that has it, \
         pack the same pictures again, or begin a new run with a recipe that has no data.digest",
        folder.display()
    )]
    OtherSet {
        /// The data set.
        name: String,
        /// The data folder.
        folder: PathBuf,
    },
    /// A folder that does not have pictures in folders of classes.
    #[error("{}: {why}", from.display())]
    Pictures {
        /// The folder.
        from: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// Pictures that cannot be read.
    #[error(
        "{count} of {of} pictures cannot be read:{first}\nmend or remove them, or leave them out with --skip-unreadable"
    )]
    Unreadable {
        /// How many.
        count: usize,
        /// Of how many.
        of: usize,
        /// The first of them with what is wrong, a line each, every line after a line break.
        first: String,
    },
    /// More held out than there is.
    #[error("{asked} images cannot be held out of {images}: at least one must be left to train on")]
    Validation {
        /// Images asked for.
        asked: usize,
        /// Training images there are.
        images: usize,
    },
    /// A batch size without a batch.
    #[error("a batch of {batch} cannot be made of {images} images: choose between 1 and {images}")]
    BatchSize {
        /// Images asked for.
        batch: usize,
        /// Images there are.
        images: usize,
    },
}

impl DataError {
    pub(super) fn malformed(
        file: &Path,
        offset: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        let (expected, found) = (expected.into(), found.into());
        Self::Malformed { file: file.to_owned(), offset: offset as u64, expected, found }
    }

    /// With what the system says, on one line.
    pub fn with_cause(&self) -> String {
        match self {
            Self::Io { source, .. } => format!("{self}: {source}"),
            _ => self.to_string(),
        }
    }

    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        Self::Io { doing: "read", advice: String::new(), path: path.to_owned(), source }
    }
}
