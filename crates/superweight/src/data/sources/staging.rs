//! Writes a data set to a hidden folder and renames it when it is whole.
//!
//! The folder is `.NAME.RANDOM.tmp`. The process that writes there holds its file `lock`; the next
//! process that writes a data set of this name removes what a killed one has left. A kill between
//! the two renames of a replacement leaves the previous data set under `.NAME.RANDOM.old`.

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use crate::data::DataError;
use crate::fs::sync_folder;

/// File that the writing process locks.
const LOCK: &str = "lock";
/// Attempts at an operation that other processes may interfere with.
const TRIES: usize = 16;

/// Error of a file or folder that cannot be written.
pub(in crate::data) fn unwritable(path: &Path, source: io::Error) -> DataError {
    let advice = "; choose another folder with --out or SWN_DATA".to_owned();
    DataError::Io { doing: "written", advice, path: path.to_owned(), source }
}

/// A hidden folder, removed when dropped unless it was renamed to its place.
#[derive(Debug)]
pub(in crate::data) struct Staging {
    pub(in crate::data) path: PathBuf,
    /// Shows other processes that the folder is in use.
    _lock: File,
}

impl Staging {
    /// Creates a folder for the data set `name` in `to`, and removes those that killed processes
    /// left.
    pub(in crate::data) fn new(to: &Path, name: &str) -> Result<Self, DataError> {
        fs::create_dir_all(to).map_err(|error| unwritable(to, error))?;
        remove_left(to, name);
        let mut tries = 0;
        loop {
            let path = hidden(to, name, "tmp");
            let failed = |error| unwritable(&path, error);
            let made = fs::create_dir(&path).and_then(|()| File::create_new(path.join(LOCK)));
            tries += 1;
            match made {
                // On file systems without locks, no folder counts as left behind.
                Ok(lock) => {
                    let held = !matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
                    // Another process may have locked it first and removed it as left behind.
                    if held && path.join(LOCK).exists() {
                        return Ok(Self { path, _lock: lock });
                    }
                    if tries == TRIES {
                        return Err(failed(io::ErrorKind::ResourceBusy.into()));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => {}
                Err(error) => {
                    let _ = fs::remove_dir_all(&path);
                    return Err(failed(error));
                }
            }
        }
    }

    /// Renames the folder to `target`, which must not exist.
    pub(in crate::data) fn place(self, target: &Path) -> Result<(), DataError> {
        self.close(target)?;
        // Renaming onto a folder with contents fails.
        fs::rename(&self.path, target).map_err(|error| match is_taken(&error) {
            true => DataError::Exists {
                target: target.to_owned(),
                why: "another process has written it meanwhile",
            },
            false => unwritable(target, error),
        })
    }

    /// Renames the folder to `target`, replacing an existing one, which is kept until this has
    /// succeeded.
    pub(in crate::data) fn replace(self, target: &Path) -> Result<(), DataError> {
        self.close(target)?;
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        for tries in 1.. {
            let old = hidden(target.parent().unwrap_or(Path::new("")), &name, "old");
            let replaced = fs::rename(target, &old).is_ok();
            let done = match fs::rename(&self.path, target) {
                Ok(()) => true,
                // Another process has replaced the folder meanwhile; the next try replaces that
                // one.
                Err(error) if is_taken(&error) && tries < TRIES => false,
                Err(error) => {
                    if replaced {
                        let _ = fs::rename(&old, target);
                    }
                    return Err(unwritable(target, error));
                }
            };
            if replaced {
                let _ = fs::remove_dir_all(&old);
            }
            if done {
                break;
            }
        }
        Ok(())
    }

    /// Removes the lock file and flushes the folder to the disk.
    fn close(&self, target: &Path) -> Result<(), DataError> {
        let closed = fs::remove_file(self.path.join(LOCK)).and_then(|()| sync_folder(&self.path));
        closed.map_err(|error| unwritable(target, error))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Whether a rename failed because its target exists.
fn is_taken(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory};
    matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | NotADirectory)
}

/// Hidden name that no other process uses, in any container or on any machine.
fn hidden(folder: &Path, name: &str, kind: &str) -> PathBuf {
    let random = RandomState::new().hash_one(std::process::id());
    folder.join(format!(".{name}.{random:016x}.{kind}"))
}

/// Removes hidden folders of this name that no process holds any more.
fn remove_left(to: &Path, name: &str) {
    for entry in fs::read_dir(to).into_iter().flatten().flatten() {
        let found = entry.file_name();
        let random = found.to_str().and_then(|found| {
            found.strip_prefix('.')?.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".tmp")
        });
        let is_random =
            |text: &str| text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
        if !random.is_some_and(is_random) {
            continue;
        }
        // A folder without a lock file has just been created, or is about to be renamed.
        if let Ok(lock) = File::open(entry.path().join(LOCK))
            && lock.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::Folder;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn folders_of_killed_processes_are_removed_and_no_others() {
        let folder = Folder::new("staging-left");
        let make = |name: &str, file: &str| {
            fs::create_dir(folder.0.join(name)).unwrap();
            fs::write(folder.0.join(name).join(file), "").unwrap();
        };
        make(".birds.0123456789abcdef.tmp", LOCK); // left behind
        let kept = [
            (".birds.0123456789abcdee.tmp", "train-images.npy"), // without a lock file
            (".birds.0123456789abcdef.old", LOCK),
            (".birds.more.0123456789abcdef.tmp", LOCK),
            (".owls.0123456789abcdef.tmp", LOCK),
            (".birds.123.tmp", LOCK),
            ("birds", "set.json"),
        ];
        kept.iter().for_each(|(name, file)| make(name, file));
        let first = Staging::new(&folder.0, "birds").unwrap();
        let second = Staging::new(&folder.0, "birds").unwrap();
        let mut there = names(&folder.0);
        there.sort_unstable();
        let ours =
            [&first, &second].map(|staging| staging.path.file_name().unwrap().to_str().unwrap());
        let mut expected: Vec<_> = kept.iter().map(|(name, _)| *name).chain(ours).collect();
        expected.sort_unstable();
        assert_eq!(there, expected);
        drop((first, second));
        assert_eq!(names(&folder.0).len(), kept.len());
    }

    #[test]
    fn several_processes_that_replace_a_set_leave_one_whole() {
        let folder = Folder::new("staging-replace");
        let target = folder.0.join("birds");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (folder, target) = (&folder.0, &target);
                scope.spawn(move || {
                    for round in 0..50 {
                        let staging = Staging::new(folder, "birds").unwrap();
                        for file in ["a", "b"] {
                            fs::write(staging.path.join(file), format!("{thread} {round}"))
                                .unwrap();
                        }
                        staging.replace(target).unwrap();
                    }
                });
            }
        });
        assert_eq!(names(&folder.0), ["birds"]);
        let [a, b] = ["a", "b"].map(|file| fs::read_to_string(target.join(file)).unwrap());
        assert_eq!((&a, names(&target).len()), (&b, 2));
    }
}
