//! A set on its way to its place: a hidden folder beside it, renamed when it is whole.
//!
//! `.NAME.LOT.tmp`, whose `lock` is held by whoever writes there: what a killed process has left is removed by the next that
//! writes a set of this name. A kill in the instant between two renames leaves what was there before under `.NAME.LOT.old`.

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use crate::data::DataError;

const LOCK: &str = "lock";
/// How often others may be faster.
const TRIES: usize = 16;

pub(in crate::data) fn unwritable(path: &Path, source: io::Error) -> DataError {
    let advice = "; choose another folder with --to or SWN_DATA".to_owned();
    DataError::Io { doing: "written", advice, path: path.to_owned(), source }
}

/// A hidden folder beside the place it will have; removed unless it gets there.
#[derive(Debug)]
pub(in crate::data) struct Staging {
    pub(in crate::data) path: PathBuf,
    /// Others know by it that somebody is here.
    _lock: File,
}

impl Staging {
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
                // Where nothing can be locked, nothing is taken for left.
                Ok(lock) => {
                    let held = !matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
                    // Another may have locked it before, taken it for left, and be done with removing it.
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

    /// Takes a place where nothing is, or fails.
    pub(in crate::data) fn take_free_place(self, target: &Path) -> Result<(), DataError> {
        self.close(target)?;
        // A folder that has something in it is not renamed over.
        fs::rename(&self.path, target).map_err(|error| match is_taken(&error) {
            true => DataError::Exists {
                target: target.to_owned(),
                why: "something has taken its place meanwhile",
            },
            false => unwritable(target, error),
        })
    }

    /// Takes the place of what is there, which is kept until this has succeeded.
    pub(in crate::data) fn become_(self, target: &Path) -> Result<(), DataError> {
        self.close(target)?;
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        for tries in 1.. {
            let old = hidden(target.parent().unwrap_or(Path::new("")), &name, "old");
            let replaced = fs::rename(target, &old).is_ok();
            let done = match fs::rename(&self.path, target) {
                Ok(()) => true,
                // Another was faster: what was there is replaced already, and that is replaced now.
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

    /// On the disk, and without what is not of the set.
    fn close(&self, target: &Path) -> Result<(), DataError> {
        let closed =
            fs::remove_file(self.path.join(LOCK)).and_then(|()| File::open(&self.path)?.sync_all());
        closed.map_err(|error| unwritable(target, error))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn is_taken(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory};
    matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | NotADirectory)
}

/// A name that nobody else has, in whatever container or on whatever machine.
fn hidden(folder: &Path, name: &str, kind: &str) -> PathBuf {
    let lot = RandomState::new().hash_one(std::process::id());
    folder.join(format!(".{name}.{lot:016x}.{kind}"))
}

/// Removes folders of this name that nobody holds any more.
fn remove_left(to: &Path, name: &str) {
    for entry in fs::read_dir(to).into_iter().flatten().flatten() {
        let found = entry.file_name();
        let lot = found.to_str().and_then(|found| {
            found.strip_prefix('.')?.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".tmp")
        });
        if lot.is_none_or(|lot| lot.len() != 16 || lot.bytes().any(|b| !b.is_ascii_hexdigit())) {
            continue;
        }
        // Without a lock it is just being made, or about to get its place.
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
    fn what_killed_processes_left_is_removed_and_nothing_else() {
        let folder = Folder::new("staging-left");
        let make = |name: &str, file: &str| {
            fs::create_dir(folder.0.join(name)).unwrap();
            fs::write(folder.0.join(name).join(file), "").unwrap();
        };
        make(".birds.0123456789abcdef.tmp", LOCK); // left
        let kept = [
            (".birds.0123456789abcdee.tmp", "train-images.npy"), // being made
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
    fn of_several_that_replace_a_set_at_once_the_last_is_there_whole() {
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
                        staging.become_(target).unwrap();
                    }
                });
            }
        });
        assert_eq!(names(&folder.0), ["birds"]);
        let [a, b] = ["a", "b"].map(|file| fs::read_to_string(target.join(file)).unwrap());
        assert_eq!((&a, names(&target).len()), (&b, 2));
    }
}
