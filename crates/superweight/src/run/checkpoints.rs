//! The checkpoints of a run: each is added atomically, and the last two are kept.
//!
//! ```text
//! .0012.tmp/ files written and flushed ─ folder flushed ─► 0012/ ─ parent flushed ─► latest: 0012
//!     ─ parent flushed ─► 0010/ is removed
//! ```
//!
//! Each arrow is one rename, so a reader finds the old checkpoint or the new one. Each flush comes
//! before the rename that relies on it, so this holds after a power cut too. A folder is renamed
//! before it is removed: a folder with a number for its name is never half a checkpoint. `latest`
//! is a small file, not a link: every file system can replace it by a rename, and every program can
//! read it.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::checkpoint::{Checkpoint, Contents};
use super::disk::Disk;
use super::error::RunError;

const LATEST: &str = "latest";
/// Number of checkpoints that are kept.
const KEPT: usize = 2;

/// The folder `checkpoints/` of a run.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    path: PathBuf,
    disk: Disk,
}

/// Identity of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the checkpoint in its run.
    pub number: u64,
    /// SHA-256 of its `SHA256SUMS`, which differs between runs. Empty in files of older programs,
    /// which recorded the number alone.
    pub digest: String,
}

impl Stamp {
    /// Compares the stamp that a file records with this one, the newest checkpoint of its run.
    /// Returns what differs: the number, or the digest, which means another run.
    pub fn contradiction(&self, recorded: &Self) -> Option<String> {
        if recorded.number != self.number {
            let (number, newest) = (recorded.number, self.number);
            return Some(format!("of checkpoint {number}, the newest is {newest}"));
        }
        let foreign = !recorded.digest.is_empty() && recorded.digest != self.digest;
        foreign.then(|| format!("of checkpoint {} of another run", recorded.number))
    }
}

/// A checkpoint that was read from its folder.
#[derive(Debug)]
pub struct Loaded {
    /// Identity of the checkpoint.
    pub stamp: Stamp,
    /// Contents of the checkpoint.
    pub checkpoint: Checkpoint,
    /// Why an older checkpoint was read; empty for the newest one.
    pub warnings: Vec<Warning>,
}

/// Damage that does not prevent reading a checkpoint.
#[derive(Debug)]
#[non_exhaustive]
pub enum Warning {
    /// A newer checkpoint is damaged and was skipped.
    Damaged {
        /// Number of that checkpoint.
        number: u64,
        /// What is wrong with it.
        why: RunError,
    },
    /// The file `latest` is missing or damaged; the newest whole checkpoint was read.
    Latest {
        /// What is wrong with the file.
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
    /// Names the folder, which need not exist yet.
    pub fn new(path: PathBuf, disk: Disk) -> Self {
        Self { path, disk }
    }

    /// Folder of all checkpoints.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Folder of one checkpoint.
    pub fn folder(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:04}"))
    }

    /// Adds a checkpoint and makes it the latest. Removes all but the last two, and leftovers of
    /// crashes. Only one process at a time may call this, which the lock of the run ensures; others
    /// may read.
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
            && Checkpoint::read(&self.folder(latest), Contents::Complete).is_ok()
        {
            return Err(RunError::NotNewer { number, latest, path: self.path.clone() });
        }
        if target.exists() {
            // It is damaged, or a crash came before `latest` was written.
            self.remove(number)?;
        }
        let temporary = self.path.join(format!(".{number:04}.tmp"));
        let written = self.write(&temporary, &target, checkpoint);
        if written.is_err() && temporary.exists() {
            // Frees space on a full disk; the first failure is the one to report.
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

    /// Writes a checkpoint under a temporary name, then renames the folder.
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

    /// Removes every checkpoint but `latest` and the newest one before it.
    fn prune(&self, latest: u64) -> Result<(), RunError> {
        let (newer, kept): (Vec<_>, Vec<_>) =
            self.numbers()?.into_iter().partition(|&n| n > latest);
        let old = kept.into_iter().skip(KEPT);
        newer.into_iter().chain(old).try_for_each(|number| self.remove(number))
    }

    /// Removes one checkpoint, renamed first.
    fn remove(&self, number: u64) -> Result<(), RunError> {
        let (folder, temporary) =
            (self.folder(number), self.path.join(format!(".{number:04}.old.tmp")));
        self.disk.rename(&folder, &temporary).map_err(RunError::io("remove", &folder))?;
        // On the disk too, the name disappears before the files do.
        self.disk.sync_folder(&self.path).map_err(RunError::io("sync", &self.path))?;
        self.disk.remove_folder(&temporary).map_err(RunError::io("remove", &temporary))
    }

    /// Removes everything with a temporary name, which an interrupted writer left.
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

    /// Reads the newest whole checkpoint; `None` before the first. A damaged checkpoint is skipped
    /// with a warning.
    ///
    /// # Errors
    /// Fails if all checkpoints are damaged, or if a newer program wrote the newest one.
    pub fn load(&self) -> Result<Option<Loaded>, RunError> {
        self.load_contents(Contents::Complete)
    }

    /// Reads plan, parameters and state of the newest checkpoint that has them whole, without the
    /// optimizer and the weight average, which only training needs.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_parameters(&self) -> Result<Option<Loaded>, RunError> {
        self.load_contents(Contents::Parameters)
    }

    fn load_contents(&self, contents: Contents) -> Result<Option<Loaded>, RunError> {
        loop {
            let latest = self.latest();
            let found = self.load_once(&latest, contents);
            // A writer may have removed the named checkpoint meanwhile; then `latest` names another
            // now.
            let moved = matches!((&latest, self.latest()), (Ok(before), Ok(now)) if *before != now);
            match &found {
                Ok(Some(loaded)) if loaded.warnings.is_empty() => return found,
                _ if !moved => return found,
                _ => {}
            }
        }
    }

    /// Reads the newest whole checkpoint, given the contents of `latest`.
    fn load_once(
        &self,
        latest: &Result<Option<u64>, String>,
        contents: Contents,
    ) -> Result<Option<Loaded>, RunError> {
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
            match Checkpoint::read(&self.folder(number), contents) {
                Ok((checkpoint, digest)) => {
                    let stamp = Stamp { number, digest };
                    return Ok(Some(Loaded { stamp, checkpoint, warnings }));
                }
                // Training from an older checkpoint would discard the work of the newer program.
                Err(newer @ RunError::Version { .. }) => return Err(newer),
                Err(why) => warnings.push(Warning::Damaged { number, why }),
            }
        }
        let damaged = warnings.into_iter().filter_map(|warning| match warning {
            Warning::Damaged { why, .. } => Some(why),
            Warning::Latest { .. } => None,
        });
        let damaged: Vec<RunError> = damaged.collect();
        // With an optimizer the newest such checkpoint would be whole.
        let no_optimizer = |why: &RunError| matches!(why, RunError::NoOptimizer { .. });
        match damaged.iter().position(no_optimizer) {
            Some(at) => Err({ damaged }.swap_remove(at)),
            None => Err(RunError::NoWholeCheckpoint { path: self.path.clone(), damaged }),
        }
    }

    /// Number in the file `latest`; `None` without that file.
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

    /// Numbers of the existing checkpoints, newest first.
    pub fn numbers(&self) -> Result<Vec<u64>, RunError> {
        let mut numbers: Vec<_> =
            entries(&self.path)?.iter().filter_map(|(name, _)| parse(name)).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        Ok(numbers)
    }
}

/// Number of a checkpoint from the name of its folder.
fn parse(name: &str) -> Option<u64> {
    let digits = name.len() >= 4 && name.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| name.parse().ok()).flatten()?;
    (format!("{number:04}") == name).then_some(number)
}

/// Names and paths in a folder; empty without that folder.
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
