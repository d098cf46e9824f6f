//! Whether the files in the data folder are the official ones, by size and SHA-256.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::data::DataError;
use super::catalogue::{Entry, FileEntry, Layout};
use super::source::Found;

/// Whether a set can be opened, by a look at names and sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Compiled into the program.
    Embedded,
    /// Every file, with its size.
    Whole,
    /// Some files, or some of another size.
    Incomplete,
    /// Nothing.
    Absent,
}

/// Looks for a set in the data folder.
pub fn presence(entry: &Entry, folder: &Path) -> Presence {
    let size = |file: &FileEntry| {
        fs::metadata(folder.join(entry.folder).join(file.name)).ok().map(|m| m.len())
    };
    let sizes: Vec<_> = entry.files.iter().map(|file| (size(file), file.bytes)).collect();
    match () {
        () if entry.layout == Layout::Embedded => Presence::Embedded,
        () if sizes.iter().all(|&(found, expected)| found == Some(expected)) => Presence::Whole,
        () if sizes.iter().all(|(found, _)| found.is_none()) => Presence::Absent,
        () => Presence::Incomplete,
    }
}

/// How a file is.
#[derive(Debug)]
pub enum State {
    /// The official bytes.
    Whole,
    /// Not there.
    Missing,
    /// There, and not what it should be.
    Damaged(DataError),
}

/// A file of a data set, looked at.
#[derive(Debug)]
pub struct FileState {
    /// Where it should be.
    pub path: PathBuf,
    /// Of the official file.
    pub bytes: u64,
    /// What was found.
    pub state: State,
}

/// Reads every file of a set in the data folder.
pub fn verify(entry: &Entry, folder: &Path) -> Vec<FileState> {
    let place = folder.join(entry.folder);
    entry.files.iter().map(|file| look(place.join(file.name), file.bytes, file.sha256)).collect()
}

/// Reads a file that should have this size and digest.
pub(in crate::data) fn look(path: PathBuf, bytes: u64, sha256: &str) -> FileState {
    let state = match check_file(&path, bytes, sha256) {
        Ok(()) => State::Whole,
        Err(DataError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => State::Missing,
        Err(error) => State::Damaged(error),
    };
    FileState { path, bytes, state }
}

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

/// The same of a file that has been read.
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

/// Of several parts, one after another.
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
    fn whole_missing_and_damaged_files_are_told_apart() {
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
