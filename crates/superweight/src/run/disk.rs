//! Every operation that changes a run folder, one at a time, so that a test can stop before any of them.
//!
//! A crash is a sequence of file operations that ends early. With all of them behind one door a test crashes the program
//! before the first, the second, … and looks at what a reader finds. Not a trait with a simulated file system: what
//! matters is what the real one does, and a hook on the real one costs a branch.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// What is about to be done to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// A folder is made.
    CreateFolder(&'a Path),
    /// A file is made, empty.
    CreateFile(&'a Path),
    /// Bytes are added to a file.
    Write(&'a Path, usize),
    /// A file's bytes are brought to the disk.
    SyncFile(&'a Path),
    /// A folder's entries are brought to the disk.
    SyncFolder(&'a Path),
    /// A file or folder gets another name.
    Rename(&'a Path, &'a Path),
    /// A file goes.
    RemoveFile(&'a Path),
    /// An empty folder goes.
    RemoveFolder(&'a Path),
}

type Hook = Arc<dyn Fn(Operation<'_>) -> io::Result<()> + Send + Sync>;

/// The file system, with a hook before every change.
#[derive(Clone, Default)]
pub struct Disk {
    hook: Option<Hook>,
}

impl Disk {
    /// A disk that asks before each operation; an error is returned in its place.
    pub fn with_hook(
        hook: impl Fn(Operation<'_>) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { hook: Some(Arc::new(hook)) }
    }

    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        self.hook.as_ref().map_or(Ok(()), |hook| hook(operation))
    }

    /// Makes a folder, which must not be there.
    pub fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.before(Operation::CreateFolder(path))?;
        fs::create_dir(path)
    }

    /// Makes or empties a file.
    pub fn create_file<'a>(&'a self, path: &'a Path) -> io::Result<DiskFile<'a>> {
        self.before(Operation::CreateFile(path))?;
        Ok(DiskFile { file: File::create(path)?, path, disk: self })
    }

    /// Makes a file with contents, brought to the disk.
    pub fn write_file(&self, path: &Path, contents: &[u8]) -> io::Result<()> {
        let mut file = self.create_file(path)?;
        file.write_all(contents)?;
        file.sync()
    }

    /// Brings a folder's entries to the disk: what was made, renamed or removed in it. Where the system cannot (Windows
    /// has no such thing), renaming is all there is.
    pub fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.before(Operation::SyncFolder(path))?;
        match cfg!(unix) {
            true => File::open(path)?.sync_all(),
            false => Ok(()),
        }
    }

    /// The same of the folder that a path is in.
    pub fn sync_parent(&self, path: &Path) -> io::Result<()> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        self.sync_folder(parent.unwrap_or(Path::new(".")))
    }

    /// Gives a file or folder another name.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.before(Operation::Rename(from, to))?;
        fs::rename(from, to)
    }

    /// Removes a file.
    pub fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.before(Operation::RemoveFile(path))?;
        fs::remove_file(path)
    }

    /// Removes a folder and all in it, file by file; a link is removed, never followed.
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

/// A file being written.
#[derive(Debug)]
pub struct DiskFile<'a> {
    file: File,
    path: &'a Path,
    disk: &'a Disk,
}

impl DiskFile<'_> {
    /// Brings the bytes to the disk.
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
