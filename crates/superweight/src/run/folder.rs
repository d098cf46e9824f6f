//! Creates the folder of a run atomically, resumes it, and never overwrites one by accident.
//!
//! A new folder is created under a temporary name, with its recipe inside and its lock held, then
//! renamed. So one process takes a name in one step, and a folder with the name of a run has all
//! that a run needs. `create_dir` with files written afterwards was not chosen: a crash in between
//! would leave a folder that is neither a run nor free.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::checkpoints::{Checkpoints, Loaded};
use super::disk::Disk;
use super::error::RunError;
use super::invocation::COMMANDS;
use super::lock::Lock;
use super::log::{Cut, Log};
use super::tensorboard::TensorBoard;
use crate::fs::check_name;

/// The recipe as the user wrote it.
pub(crate) const RECIPE: &str = "recipe.toml";
/// The recipe with every default filled in.
pub(crate) const RESOLVED: &str = "resolved.toml";
/// The log of events.
pub(crate) const LOG: &str = "log.jsonl";
/// What search and refinement decided from.
const STATISTICS: &str = "statistics.safetensors";

/// What [`RunFolder::create`] does if a run of the name exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Uses the first free name of NAME-2, NAME-3, …
    NextName,
    /// Returns an error.
    Refuse,
    /// Removes the existing run. A run in use, or a folder that is not a run, is still an error.
    Replace,
}

/// The locked folder of a run; only this process writes it.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    disk: Disk,
    _lock: Lock,
}

/// A run that is about to continue.
#[derive(Debug)]
pub struct Resumed {
    /// The locked folder.
    pub folder: RunFolder,
    /// Newest whole checkpoint; `None` if the run stopped before its first.
    pub loaded: Option<Loaded>,
}

impl Resumed {
    /// Opens the log, cut to the checkpoint. Call this only when it is certain that the run
    /// continues: a run that is refused keeps its whole log.
    pub fn open_log(&self) -> Result<(Log, Cut), RunError> {
        let mut log = self.folder.log()?;
        let seen = self.loaded.as_ref().map_or(0, |loaded| loaded.checkpoint.state.log_bytes);
        let cut = log.truncate_to(seen)?;
        Ok((log, cut))
    }
}

impl RunFolder {
    /// Creates `runs/name` with two files: the recipe as the user wrote it, and with every default
    /// filled in.
    pub fn create(
        runs: &Path,
        name: &str,
        existing: Existing,
        recipe: &str,
        resolved: &str,
    ) -> Result<Self, RunError> {
        Self::create_on(
            Disk::default(),
            runs,
            name,
            existing,
            &[(RECIPE, recipe), (RESOLVED, resolved)],
        )
    }

    pub(crate) fn create_on(
        disk: Disk,
        runs: &Path,
        name: &str,
        existing: Existing,
        files: &[(&str, &str)],
    ) -> Result<Self, RunError> {
        check_name(name).map_err(|why| RunError::BadName { name: name.to_owned(), why })?;
        fs::create_dir_all(runs).map_err(RunError::io("create", runs))?;
        if existing == Existing::Refuse {
            refuse_existing(&runs.join(name))?;
        }
        remove_leftovers(&disk, runs, name);
        let temporary = temporary(runs, name, "tmp");
        let made = Self::make(disk.clone(), &temporary, files);
        let placed = made.and_then(|folder| folder.place(runs, name, existing));
        if placed.is_err() && temporary.exists() {
            // The first failure is the one to report.
            let _ = disk.remove_folder(&temporary);
        }
        placed
    }

    /// Creates a run that continues from a checkpoint of the run `from`, with copies of that run's
    /// log up to the checkpoint, commands, statistics and the checkpoint.
    pub(crate) fn create_from(
        disk: Disk,
        (from, loaded): (&Path, &Loaded),
        runs: &Path,
        name: &str,
        existing: Existing,
        files: &[(&str, &str)],
    ) -> Result<Self, RunError> {
        let (mut log, commands) =
            (text_of(from, LOG)?.unwrap_or_default(), text_of(from, COMMANDS)?);
        log.truncate(log.floor_char_boundary(loaded.checkpoint.state.log_bytes as usize));
        let way = [(LOG, Some(log.as_str())), (COMMANDS, commands.as_deref())];
        let way = way.into_iter().filter_map(|(name, text)| Some((name, text?)));
        let files: Vec<_> = files.iter().copied().chain(way).collect();
        let folder = Self::create_on(disk, runs, name, existing, &files)?;
        let seen = from.join(STATISTICS);
        if seen.exists() {
            let (seen, path) =
                (fs::read(&seen).map_err(RunError::io("read", &seen))?, folder.statistics());
            folder.disk.write_file(&path, &seen).map_err(RunError::io("write", &path))?;
        }
        folder.checkpoints().save(loaded.stamp.number, &loaded.checkpoint)?;
        Ok(folder)
    }

    /// Creates the folder under its temporary name and locks it.
    fn make(disk: Disk, path: &Path, files: &[(&str, &str)]) -> Result<Self, RunError> {
        disk.create_folder(path).map_err(RunError::io("create", path))?;
        let lock = Lock::take(path)?;
        for (name, text) in files {
            let file = path.join(name);
            disk.write_file(&file, text.as_bytes()).map_err(RunError::io("write", &file))?;
        }
        disk.sync_folder(path).map_err(RunError::io("sync", path))?;
        Ok(Self { path: path.to_owned(), disk, _lock: lock })
    }

    /// Renames the folder to its name, or to the first free one; renaming onto a folder with
    /// contents fails.
    fn place(mut self, runs: &Path, name: &str, existing: Existing) -> Result<Self, RunError> {
        for number in 1u32.. {
            let path = match number {
                1 => runs.join(name),
                _ => runs.join(format!("{name}-{number}")),
            };
            if existing == Existing::Replace && path.exists() {
                self.remove_run(&path, &temporary(runs, name, "old.tmp"))?;
            }
            match self.disk.rename(&self.path, &path) {
                Ok(()) => {
                    self.disk.sync_folder(runs).map_err(RunError::io("sync", runs))?;
                    self.path = path;
                    return Ok(self);
                }
                Err(_) if path.symlink_metadata().is_ok() => match existing {
                    Existing::NextName => {}
                    Existing::Refuse | Existing::Replace => return Err(RunError::Exists { path }),
                },
                Err(error) => return Err(RunError::io("create", &path)(error)),
            }
        }
        unreachable!("some number is free")
    }

    /// Removes the run at `path`, renamed to `aside` first; an empty folder stays.
    fn remove_run(&self, path: &Path, aside: &Path) -> Result<(), RunError> {
        let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        if is_empty {
            return Ok(());
        }
        let _lock = lock_run(path)?;
        self.disk.rename(path, aside).map_err(RunError::io("replace", path))?;
        self.disk.remove_folder(aside).map_err(RunError::io("remove", aside))
    }

    /// Locks a run and reads its newest whole checkpoint, to continue it.
    pub fn resume(path: &Path) -> Result<Resumed, RunError> {
        Self::resume_on(Disk::default(), path)
    }

    pub(crate) fn resume_on(disk: Disk, path: &Path) -> Result<Resumed, RunError> {
        let folder = Self { path: path.to_owned(), _lock: lock_run(path)?, disk };
        let loaded = folder.checkpoints().load()?;
        Ok(Resumed { folder, loaded })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the recipe as the user wrote it.
    pub fn recipe(&self) -> Result<String, RunError> {
        read(&self.path.join(RECIPE))
    }

    /// Reads the recipe with every default filled in.
    pub fn resolved(&self) -> Result<String, RunError> {
        read(&self.path.join(RESOLVED))
    }

    /// The disk that the run's files are written through.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The checkpoints of the run.
    pub fn checkpoints(&self) -> Checkpoints {
        Checkpoints::new(self.path.join("checkpoints"), self.disk.clone())
    }

    /// Opens the log for appending.
    pub fn log(&self) -> Result<Log, RunError> {
        Log::open(&self.path.join(LOG))
    }

    /// Creates a new file for TensorBoard; `resumed_at` is the first step that a resumed run
    /// repeats.
    pub fn tensorboard(&self, resumed_at: Option<i64>) -> Result<TensorBoard, RunError> {
        TensorBoard::create(&self.path, resumed_at)
    }

    /// Path of `statistics.safetensors`, what search and refinement decided from.
    pub fn statistics(&self) -> PathBuf {
        self.path.join(STATISTICS)
    }

    /// Path of `report.html`.
    pub fn report(&self) -> PathBuf {
        self.path.join("report.html")
    }
}

/// Reads plan, parameters and state of a run's newest checkpoint without locking the run, also
/// while it trains. Optimizer and weight average of the result are empty.
pub fn load_parameters(run: &Path) -> Result<Option<Loaded>, RunError> {
    is_run(run)?;
    Checkpoints::new(run.join("checkpoints"), Disk::default()).load_parameters()
}

/// Reads the newest whole checkpoint of a run without locking it, also while it trains.
pub fn load_checkpoint(run: &Path) -> Result<Option<Loaded>, RunError> {
    is_run(run)?;
    Checkpoints::new(run.join("checkpoints"), Disk::default()).load()
}

/// Reads a file of a run; `None` if the run has no such file.
pub(crate) fn text_of(run: &Path, name: &str) -> Result<Option<String>, RunError> {
    let path = run.join(name);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(RunError::io("read", &path)(error)),
    }
}

/// Hidden name that no other process or thread uses.
fn temporary(runs: &Path, name: &str, end: &str) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    runs.join(format!(".{name}.{}.{count}.{end}", std::process::id()))
}

/// Removes what a crash left while a run of this name was created or replaced, unless a process
/// holds it. What cannot be removed stays; it blocks nothing.
fn remove_leftovers(disk: &Disk, runs: &Path, name: &str) {
    for entry in fs::read_dir(runs).into_iter().flatten().flatten() {
        let file_name = entry.file_name();
        let rest = file_name
            .to_str()
            .and_then(|full| full.strip_prefix('.')?.strip_prefix(name)?.strip_prefix('.'));
        let of_a_process =
            |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.ends_with(".tmp");
        if rest.is_some_and(of_a_process)
            && let Ok(_lock) = lock_run(&entry.path())
        {
            let _ = disk.remove_folder(&entry.path());
        }
    }
}

/// Locks the folder of an existing run.
fn lock_run(path: &Path) -> Result<Lock, RunError> {
    is_run(path)?;
    Lock::take(path)
}

/// Fails unless the folder exists and has `resolved.toml`.
fn is_run(path: &Path) -> Result<(), RunError> {
    match fs::metadata(path).map_err(RunError::io("open", path)) {
        Err(error) => Err(error),
        Ok(_) if path.join(RESOLVED).is_file() => Ok(()),
        Ok(_) => Err(RunError::NotARun { path: path.to_owned() }),
    }
}

fn refuse_existing(path: &Path) -> Result<(), RunError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        _ => Err(RunError::Exists { path: path.to_owned() }),
    }
}

fn read(path: &Path) -> Result<String, RunError> {
    fs::read_to_string(path).map_err(RunError::io("read", path))
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
