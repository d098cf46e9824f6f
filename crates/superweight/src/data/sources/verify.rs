//! Verifies the files of a data set in the data folder by size and SHA-256.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::catalog::{Entry, FileEntry, Layout};
use super::source::Found;
use crate::data::DataError;

/// Whether a data set can be opened, by names and sizes of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Presence {
    /// The images are in the program.
    Embedded,
    /// All files exist and have the right sizes.
    Whole,
    /// Some files are missing or have another size.
    Incomplete,
    /// No file exists, or the program was built without the images.
    Absent,
}

/// Checks names and sizes of the files of a data set in the data folder.
pub fn presence(entry: &Entry, folder: &Path) -> Presence {
    let size = |file: &FileEntry| {
        fs::metadata(folder.join(entry.folder).join(file.name)).ok().map(|m| m.len())
    };
    let sizes: Vec<_> = entry.files.iter().map(|file| (size(file), file.bytes)).collect();
    match () {
        () if entry.layout == Layout::Embedded => match cfg!(feature = "embedded-data") {
            true => Presence::Embedded,
            false => Presence::Absent,
        },
        () if sizes.iter().all(|&(found, expected)| found == Some(expected)) => Presence::Whole,
        () if sizes.iter().all(|(found, _)| found.is_none()) => Presence::Absent,
        () => Presence::Incomplete,
    }
}

/// Result of the verification of a file.
#[derive(Debug)]
pub enum State {
    /// The file has the right size and digest.
    Whole,
    /// The file does not exist.
    Missing,
    /// The file differs, or cannot be read.
    Damaged(DataError),
}

/// A file of a data set that was verified.
#[derive(Debug)]
pub struct FileState {
    /// Path of the file.
    pub path: PathBuf,
    /// Size in bytes that the file should have.
    pub bytes: u64,
    /// Result of the verification.
    pub state: State,
}

/// Reads every file of a data set in the data folder and compares digests.
pub fn verify(entry: &Entry, folder: &Path) -> Vec<FileState> {
    let place = folder.join(entry.folder);
    let state = |file: &FileEntry| verify_file(place.join(file.name), file.bytes, file.sha256);
    entry.files.iter().map(state).collect()
}

/// Reads a file and compares its size and digest with these.
pub(in crate::data) fn verify_file(path: PathBuf, bytes: u64, sha256: &str) -> FileState {
    let state = match check_file(&path, bytes, sha256) {
        Ok(()) => State::Whole,
        Err(DataError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => State::Missing,
        Err(error) => State::Damaged(error),
    };
    FileState { path, bytes, state }
}

/// Fails unless a file has this size and digest.
fn check_file(path: &Path, expected: u64, digest: &str) -> Result<(), DataError> {
    let failed = |error| DataError::read(path, error);
    let bytes = fs::metadata(path).map_err(failed)?.len();
    if bytes != expected {
        let found = format!("{bytes} bytes");
        return Err(DataError::WrongSize { file: path.to_owned(), found, expected });
    }
    let mut reader = File::open(path).map_err(failed)?;
    let (mut sha256, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match reader.read(&mut buffer).map_err(failed)? {
            0 => return compare(path, digest, hex(&sha256.finalize())),
            n => sha256.update(&buffer[..n]),
        }
    }
}

/// Fails unless the contents of a file that was read have the digest of the entry.
pub(in crate::data) fn check(found: &Found, file: &FileEntry) -> Result<(), DataError> {
    compare(&found.path, file.sha256, hex_sha256(&[&found.bytes]))
}

fn compare(path: &Path, expected: &str, found: String) -> Result<(), DataError> {
    match found == expected {
        true => Ok(()),
        false => {
            Err(DataError::Digest { file: path.to_owned(), expected: expected.to_owned(), found })
        }
    }
}

/// SHA-256 of several parts in sequence, in hexadecimal.
pub(in crate::data) fn hex_sha256(parts: &[&[u8]]) -> String {
    let mut sha256 = Sha256::new();
    parts.iter().for_each(|part| sha256.update(part));
    hex(&sha256.finalize())
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::{Folder, cifar_entry};

    /// `printf abc | sha256sum`
    #[test]
    fn digests_are_hexadecimal() {
        assert_eq!(
            hex_sha256(&[b"a", b"bc"]),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn whole_missing_and_damaged_files_are_distinguished() {
        let fixture = cifar_entry();
        let folder = Folder::new("verify");
        let inside = folder.0.join(fixture.entry.folder);
        let states = || {
            verify(&fixture.entry, &folder.0).into_iter().map(|file| file.state).collect::<Vec<_>>()
        };
        let presence = || presence(&fixture.entry, &folder.0);
        assert!(matches!(states()[..], [State::Missing, State::Missing]));
        assert_eq!(presence(), Presence::Absent);
        fixture.write(&inside);
        assert!(matches!(states()[..], [State::Whole, State::Whole]));
        assert_eq!(presence(), Presence::Whole);
        let mut bytes = fixture.files[0].1.clone();
        bytes[77] ^= 1;
        fs::write(inside.join("train.bin"), &bytes).unwrap();
        fs::write(inside.join("test.bin"), b"short").unwrap();
        assert_eq!(presence(), Presence::Incomplete);
        let [State::Damaged(one), State::Damaged(two)] = &states()[..] else {
            panic!("{:?}", states())
        };
        assert!(matches!(one, DataError::Digest { .. }), "{one}");
        assert!(matches!(two, DataError::WrongSize { .. }), "{two}");
    }
}
