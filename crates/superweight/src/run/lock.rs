//! One process at a time writes a run.
//!
//! The file `lock` is locked by the system and holds the process's number, for the message. A system's lock ends with its
//! process, however that ends, so that a lock left by a killed one is free at once. Not "is that process still
//! there?": numbers are used again, and mean nothing on another machine that sees the same folder. Where a file
//! system has no locks (some clusters' do not), there is none.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::Path;

use super::RunError;

/// Held until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Locks a run's folder.
    pub fn take(folder: &Path) -> Result<Self, RunError> {
        let path = folder.join("lock");
        let failed = || RunError::io("lock", &path);
        let mut options = File::options();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed())?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(failed()(error)),
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let process =
                    file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(RunError::InUse { path: folder.to_owned(), process });
            }
        }
        let mut lock = Self { file };
        lock.note(&format!("{}\n", std::process::id())).map_err(failed())?;
        Ok(lock)
    }

    fn note(&mut self, text: &str) -> std::io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())
    }
}

impl Drop for Lock {
    /// The file stays, empty: were it removed, another process could lock the one that is gone. Unlocked, not only
    /// closed: a child that another thread has just forked holds every open file until it executes its program.
    fn drop(&mut self) {
        let _ = self.note("");
        let _ = self.file.unlock();
    }
}
