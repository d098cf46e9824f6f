//! The lock that lets one process at a time write a run.
//!
//! The operating system locks the file `lock`, which also holds the process number for error
//! messages. Such a lock ends with its process, however that ends, so a killed process blocks no
//! one. A test of whether the process number still exists was not chosen: numbers are reused, and
//! mean nothing on another machine that shares the folder. File systems without locks (some
//! clusters) go unlocked.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::Path;

use super::error::RunError;

/// The lock of a run folder, held until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Locks a run folder, or fails with [`RunError::InUse`].
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
    /// Empties and unlocks the file. It is not removed: another process might lock the removed
    /// file. Closing alone would not unlock it: a child process that another thread has just forked
    /// holds every open file until it executes its program.
    fn drop(&mut self) {
        let _ = self.note("");
        let _ = self.file.unlock();
    }
}
