//! The folder of one run: made whole, found again, never overwritten by accident.
//!
//! It is made under a temporary name, with its recipe inside and its lock held, and renamed: a name is taken in one
//! step, by one process, and a folder with a run's name always has what a run needs. Not `create_dir` first and files
//! after: a crash between them would leave a folder that is neither a run nor free.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::lock::Lock;
use super::log::{Cut, Log};
use super::tensorboard::TensorBoard;
use super::{Checkpoints, Disk, Loaded, RunError};

pub(crate) const RECIPE: &str = "recipe.toml";
pub(crate) const RESOLVED: &str = "resolved.toml";
pub(crate) const LOG: &str = "log.jsonl";
const STATISTICS: &str = "statistics.safetensors";
/// A line per process that trained the run.
pub const COMMANDS: &str = "commands.jsonl";

/// What to do where a run of the name is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Take NAME-2, NAME-3, …
    NextName,
    /// Say so.
    Refuse,
    /// Remove it: asked for by the user. A folder that is no run, or that is in use, is still refused.
    Replace,
}

/// A run that this process alone writes.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    disk: Disk,
    _lock: Lock,
}

/// A run to go on with.
#[derive(Debug)]
pub struct Resumed {
    /// Its folder, locked.
    pub folder: RunFolder,
    /// Its newest whole checkpoint; none where it was stopped before the first.
    pub loaded: Option<Loaded>,
}

impl Resumed {
    /// The log, cut to the checkpoint, and what was cut. Not before it is certain that the run goes on: one that is refused
    /// keeps what it had.
    pub fn open_log(&self) -> Result<(Log, Cut), RunError> {
        let mut log = self.folder.log()?;
        let seen = self.loaded.as_ref().map_or(0, |loaded| loaded.checkpoint.state.log_bytes);
        let cut = log.truncate_to(seen)?;
        Ok((log, cut))
    }
}

impl RunFolder {
    /// Makes `runs/name` with the recipe as the user wrote it and with every default filled in.
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
        check_name(name)?;
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

    /// The same, with what another run had when a checkpoint of it was written: log, commands, statistics, the checkpoint.
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

    /// Renames to the name, or the first that is free: renaming onto a folder with something in it fails.
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

    fn remove_run(&self, path: &Path, aside: &Path) -> Result<(), RunError> {
        let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        if is_empty {
            return Ok(());
        }
        let _lock = lock_run(path)?;
        self.disk.rename(path, aside).map_err(RunError::io("replace", path))?;
        self.disk.remove_folder(aside).map_err(RunError::io("remove", aside))
    }

    /// Opens a run to go on with: locks it and reads its newest whole checkpoint.
    pub fn resume(path: &Path) -> Result<Resumed, RunError> {
        Self::resume_on(Disk::default(), path)
    }

    pub(crate) fn resume_on(disk: Disk, path: &Path) -> Result<Resumed, RunError> {
        let folder = Self { path: path.to_owned(), _lock: lock_run(path)?, disk };
        let loaded = folder.checkpoints().load()?;
        Ok(Resumed { folder, loaded })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the user asked.
    pub fn recipe(&self) -> Result<String, RunError> {
        read(&self.path.join(RECIPE))
    }

    /// The same with every default filled in.
    pub fn resolved(&self) -> Result<String, RunError> {
        read(&self.path.join(RESOLVED))
    }

    /// What its files are written through.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Its checkpoints.
    pub fn checkpoints(&self) -> Checkpoints {
        Checkpoints::new(self.path.join("checkpoints"), self.disk.clone())
    }

    /// Its log, at the end.
    pub fn log(&self) -> Result<Log, RunError> {
        Log::open(&self.path.join(LOG))
    }

    /// A new file for TensorBoard; `resumed_at` is the step from which older files no longer count.
    pub fn tensorboard(&self, resumed_at: Option<i64>) -> Result<TensorBoard, RunError> {
        TensorBoard::create(&self.path, resumed_at)
    }

    /// `statistics.safetensors`: what search and refinement decided from.
    pub fn statistics(&self) -> PathBuf {
        self.path.join(STATISTICS)
    }

    /// `report.html`.
    pub fn report(&self) -> PathBuf {
        self.path.join("report.html")
    }
}

/// The newest whole checkpoint of a run, without its lock: for evaluation, also while it is being trained.
pub fn load_checkpoint(run: &Path) -> Result<Option<Loaded>, RunError> {
    is_run(run)?;
    Checkpoints::new(run.join("checkpoints"), Disk::default()).load()
}

/// A file of a run, where it has such a one.
pub(crate) fn text_of(run: &Path, name: &str) -> Result<Option<String>, RunError> {
    let path = run.join(name);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(RunError::io("read", &path)(error)),
    }
}

/// A name that no other process or thread takes.
fn temporary(runs: &Path, name: &str, end: &str) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    runs.join(format!(".{name}.{}.{count}.{end}", std::process::id()))
}

/// What a crash left of making or replacing a run of this name, where no process holds it. What cannot be removed stays:
/// it is in no one's way.
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

fn lock_run(path: &Path) -> Result<Lock, RunError> {
    is_run(path)?;
    Lock::take(path)
}

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

/// A name is one folder, here and on other systems, and no option of other commands.
fn check_name(name: &str) -> Result<(), RunError> {
    let why = match name {
        "" => "it is empty",
        _ if name.len() > 200 => "it is longer than 200 bytes",
        _ if name.starts_with(['.', '-']) => "it begins with a dot or a dash",
        _ if name.contains(['/', '\\', ':', '\0']) || name.contains(char::is_control) => {
            "it has a sign of paths"
        }
        _ => return Ok(()),
    };
    Err(RunError::BadName { name: name.to_owned(), why })
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
