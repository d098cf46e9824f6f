//! The checkpoints of a run: one is added whole or not at all, and the last two stay.
//!
//! ```text
//! .0012.tmp/ files written and synced ─ folder synced ─► 0012/ ─ parent synced ─► latest: 0012 ─ parent synced ─► 0010/ goes
//! ```
//!
//! Each arrow is one rename, so that a reader sees the old checkpoint or the new one; each sync comes before the rename
//! that relies on it, so that this holds after a power cut too. What is removed is renamed first: a folder with a
//! number for its name is never half a checkpoint. `latest` is a small file, not a link: it can be replaced by a rename
//! on every file system, and read by anything.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::checkpoint::Checkpoint;
use super::{Disk, RunError};

const LATEST: &str = "latest";
const KEPT: usize = 2;

/// `checkpoints/` of a run.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    path: PathBuf,
    disk: Disk,
}

/// Which checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its place in its run.
    pub number: u64,
    /// SHA-256 over the digests of its files, by which it is told from those of other runs; empty where an older program said
    /// of which checkpoint something is.
    pub digest: String,
}

impl Stamp {
    /// What is wrong with something that says it is of a checkpoint: that has another number, or the same one in another run.
    pub fn contradiction(&self, said: &Self) -> Option<String> {
        if said.number != self.number {
            return Some(format!("of checkpoint {}, the newest is {}", said.number, self.number));
        }
        let foreign = !said.digest.is_empty() && said.digest != self.digest;
        foreign.then(|| format!("of checkpoint {} of another run", said.number))
    }
}

/// A checkpoint that was read.
#[derive(Debug)]
pub struct Loaded {
    /// Which.
    pub stamp: Stamp,
    /// What it holds.
    pub checkpoint: Checkpoint,
    /// Why it is not the newest, where it is not.
    pub warnings: Vec<Warning>,
}

/// Something was wrong, and there was a way on.
#[derive(Debug)]
pub enum Warning {
    /// A newer checkpoint cannot be used.
    Damaged {
        /// Its number.
        number: u64,
        /// What is wrong with it.
        why: RunError,
    },
    /// `latest` cannot be used; the newest whole checkpoint was taken.
    Latest {
        /// What is wrong with it.
        why: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { number, why } => write!(f, "checkpoint {number} is left out: {why}"),
            Self::Latest { why } => write!(f, "the newest whole checkpoint is taken: {why}"),
        }
    }
}

impl Checkpoints {
    /// Of this folder, which need not be there yet.
    pub fn new(path: PathBuf, disk: Disk) -> Self {
        Self { path, disk }
    }

    /// The folder of all.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of one checkpoint.
    pub fn folder(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:04}"))
    }

    /// Adds a checkpoint, makes it the latest, removes all but the last two and what a crash left. Only one process
    /// at a time may do so, which the run's lock sees to; readers may come at any time.
    pub fn save(&self, number: u64, checkpoint: &Checkpoint) -> Result<(), RunError> {
        match self.disk.create_folder(&self.path) {
            Ok(()) => {
                self.disk.sync_parent(&self.path).map_err(RunError::io("sync", &self.path))?
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(RunError::io("create", &self.path)(error)),
        }
        self.remove_leftovers()?;
        let target = self.folder(number);
        if let Ok(Some(latest)) = self.latest()
            && latest >= number
            && Checkpoint::read(&self.folder(latest)).is_ok()
        {
            return Err(RunError::NotNewer { number, latest, path: self.path.clone() });
        }
        if target.exists() {
            // A crash came before `latest`, or it is damaged.
            self.remove(number)?;
        }
        let temporary = self.path.join(format!(".{number:04}.tmp"));
        let written = self.write(&temporary, &target, checkpoint);
        if written.is_err() && temporary.exists() {
            // Gives a full disk its room back; the first failure is the one to report.
            let _ = self.disk.remove_folder(&temporary);
        }
        written?;
        let (latest, new) = (self.path.join(LATEST), self.path.join(".latest.tmp"));
        self.disk
            .write_file(&new, format!("{number:04}\n").as_bytes())
            .map_err(RunError::io("write", &new))?;
        self.disk.rename(&new, &latest).map_err(RunError::io("write", &latest))?;
        self.disk.sync_folder(&self.path).map_err(RunError::io("sync", &self.path))?;
        self.prune(number)
    }

    fn write(
        &self,
        temporary: &Path,
        target: &Path,
        checkpoint: &Checkpoint,
    ) -> Result<(), RunError> {
        self.disk.create_folder(temporary).map_err(RunError::io("create", temporary))?;
        checkpoint.write(&self.disk, temporary)?;
        self.disk.sync_folder(temporary).map_err(RunError::io("sync", temporary))?;
        self.disk.rename(temporary, target).map_err(RunError::io("write", target))?;
        self.disk.sync_folder(&self.path).map_err(RunError::io("sync", &self.path))
    }

    /// Keeps `latest` and the newest before it.
    fn prune(&self, latest: u64) -> Result<(), RunError> {
        let (newer, kept): (Vec<_>, Vec<_>) =
            self.numbers()?.into_iter().partition(|&n| n > latest);
        let old = kept.into_iter().skip(KEPT);
        newer.into_iter().chain(old).try_for_each(|number| self.remove(number))
    }

    fn remove(&self, number: u64) -> Result<(), RunError> {
        let (folder, temporary) =
            (self.folder(number), self.path.join(format!(".{number:04}.old.tmp")));
        self.disk.rename(&folder, &temporary).map_err(RunError::io("remove", &folder))?;
        // The name goes before the files do, also on the disk.
        self.disk.sync_folder(&self.path).map_err(RunError::io("sync", &self.path))?;
        self.disk.remove_folder(&temporary).map_err(RunError::io("remove", &temporary))
    }

    /// What an interrupted writer left: everything with a temporary name.
    fn remove_leftovers(&self) -> Result<(), RunError> {
        for (name, path) in entries(&self.path)? {
            if name.starts_with('.') && name.ends_with(".tmp") {
                let removed = match path.symlink_metadata().is_ok_and(|entry| entry.is_dir()) {
                    true => self.disk.remove_folder(&path),
                    false => self.disk.remove_file(&path),
                };
                removed.map_err(RunError::io("remove", &path))?;
            }
        }
        Ok(())
    }

    /// The newest whole checkpoint; nothing where there is none yet. A damaged one is passed over with a warning; where
    /// all are damaged it is an error.
    pub fn load(&self) -> Result<Option<Loaded>, RunError> {
        loop {
            let latest = self.latest();
            let found = self.load_once(&latest);
            // A writer may have removed under our hands what `latest` named; then it names another one now.
            let moved = matches!((&latest, self.latest()), (Ok(before), Ok(now)) if *before != now);
            match &found {
                Ok(Some(loaded)) if loaded.warnings.is_empty() => return found,
                _ if !moved => return found,
                _ => {}
            }
        }
    }

    fn load_once(&self, latest: &Result<Option<u64>, String>) -> Result<Option<Loaded>, RunError> {
        let mut numbers = self.numbers()?;
        let mut warnings = Vec::new();
        match latest {
            Ok(Some(latest)) => {
                numbers.retain(|number| number < latest);
                numbers.insert(0, *latest);
            }
            Ok(None) if numbers.is_empty() => return Ok(None),
            Ok(None) => {
                warnings.push(Warning::Latest { why: "there is no file `latest`".to_owned() })
            }
            Err(why) => warnings.push(Warning::Latest { why: why.clone() }),
        }
        for number in numbers {
            match Checkpoint::read(&self.folder(number)) {
                Ok((checkpoint, digest)) => {
                    let stamp = Stamp { number, digest };
                    return Ok(Some(Loaded { stamp, checkpoint, warnings }));
                }
                // An older checkpoint would be trained on over the newer program's.
                Err(newer @ RunError::Version { .. }) => return Err(newer),
                Err(why) => warnings.push(Warning::Damaged { number, why }),
            }
        }
        let damaged = warnings.into_iter().filter_map(|warning| match warning {
            Warning::Damaged { why, .. } => Some(why),
            Warning::Latest { .. } => None,
        });
        Err(RunError::NoWholeCheckpoint { path: self.path.clone(), damaged: damaged.collect() })
    }

    /// What `latest` names.
    fn latest(&self) -> Result<Option<u64>, String> {
        let path = self.path.join(LATEST);
        match fs::read_to_string(&path) {
            Ok(text) => {
                let number = text.strip_suffix('\n').and_then(parse);
                number.map(Some).ok_or_else(|| format!("{} names no checkpoint", path.display()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    /// Numbers of the checkpoints that are there, newest first.
    pub fn numbers(&self) -> Result<Vec<u64>, RunError> {
        let mut numbers: Vec<_> =
            entries(&self.path)?.iter().filter_map(|(name, _)| parse(name)).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        Ok(numbers)
    }
}

fn parse(name: &str) -> Option<u64> {
    let digits = name.len() >= 4 && name.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| name.parse().ok()).flatten()?;
    (format!("{number:04}") == name).then_some(number)
}

/// What is in a folder; nothing where it is not there.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, RunError> {
    let listed = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.and_then(Iterator::collect::<io::Result<Vec<_>>>),
    };
    let listed = listed.map_err(RunError::io("read", folder))?;
    Ok(listed
        .into_iter()
        .map(|e| (e.file_name().to_string_lossy().into_owned(), e.path()))
        .collect())
}

#[cfg(test)]
#[path = "checkpoints_tests.rs"]
mod tests;
