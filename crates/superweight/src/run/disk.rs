//! The file operations that write a run folder, each behind a hook for crash tests.
//!
//! A crash ends a sequence of file operations early. All of them pass through [`Disk`], so that a
//! test can stop before the first, the second, … and check what a reader finds. A trait with a
//! simulated file system was not chosen: the behavior of the real one matters, and a hook on it
//! costs a branch.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use crate::fs::sync_folder;

/// A file operation that is about to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Creates a folder.
    CreateFolder(&'a Path),
    /// Creates a file or empties an existing one.
    CreateFile(&'a Path),
    /// Appends this number of bytes to a file.
    Write(&'a Path, usize),
    /// Flushes the bytes of a file to the disk.
    SyncFile(&'a Path),
    /// Flushes the entries of a folder to the disk.
    SyncFolder(&'a Path),
    /// Renames a file or folder: from the first path to the second.
    Rename(&'a Path, &'a Path),
    /// Removes a file.
    RemoveFile(&'a Path),
    /// Removes an empty folder.
    RemoveFolder(&'a Path),
}

type Hook = Arc<dyn Fn(Operation<'_>) -> io::Result<()> + Send + Sync>;

/// The file system, with an optional hook that runs before every change.
#[derive(Clone, Default)]
pub struct Disk {
    hook: Option<Hook>,
}

impl Disk {
    /// Calls `hook` before each operation; if the hook fails, its error is returned instead.
    pub fn with_hook(
        hook: impl Fn(Operation<'_>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { hook: Some(Arc::new(hook)) }
    }

    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        self.hook.as_ref().map_or(Ok(()), |hook| hook(operation))
    }

    /// Creates a folder, which must not exist.
    pub fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.before(Operation::CreateFolder(path))?;
        fs::create_dir(path)
    }

    /// Creates a file or empties an existing one.
    pub fn create_file<'a>(&'a self, path: &'a Path) -> io::Result<DiskFile<'a>> {
        self.before(Operation::CreateFile(path))?;
        Ok(DiskFile { file: File::create(path)?, path, disk: self })
    }

    /// Writes a file and flushes it to the disk.
    pub fn write_file(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        let mut file = self.create_file(path)?;
        file.write_all(contents)?;
        file.sync()
    }

    /// Flushes the entries of a folder: what was created, renamed or removed in it. Does nothing on
    /// systems without such an operation (Windows).
    pub fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.before(Operation::SyncFolder(path))?;
        sync_folder(path)
    }

    /// Flushes the entries of the folder that contains `path`.
    pub fn sync_parent(&self, path: &Path) -> io::Result<()> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        self.sync_folder(parent.unwrap_or(Path::new(".")))
    }

    /// Renames a file or folder.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.before(Operation::Rename(from, to))?;
        fs::rename(from, to)
    }

    /// Removes a file.
    pub fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.before(Operation::RemoveFile(path))?;
        fs::remove_file(path)
    }

    /// Removes a folder with its contents, file by file; a symbolic link is removed, never
    /// followed.
    pub fn remove_folder(&self, path: &Path) -> io::Result<()> {
        if path.symlink_metadata()?.is_symlink() {
            return self.remove_file(path);
        }
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => self.remove_folder(&entry.path())?,
                false => self.remove_file(&entry.path())?,
            }
        }
        self.before(Operation::RemoveFolder(path))?;
        fs::remove_dir(path)
    }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("hooked", &self.hook.is_some()).finish()
    }
}

/// A file that is open for writing through a [`Disk`].
#[derive(Debug)]
pub struct DiskFile<'a> {
    file: File,
    path: &'a Path,
    disk: &'a Disk,
}

impl DiskFile<'_> {
    /// Flushes the bytes of the file to the disk.
    pub fn sync(self) -> io::Result<()> {
        self.disk.before(Operation::SyncFile(self.path))?;
        self.file.sync_all()
    }
}

impl Write for DiskFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.before(Operation::Write(self.path, bytes.len()))?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
