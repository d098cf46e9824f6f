//! Files that are there whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes `contents` under a temporary name beside `path`, syncs, then renames: a reader sees the old file or the new
/// one, and a full disk leaves the old one as it was.
pub fn write_whole(path: &Path, contents: &[u8]) -> io::Result<()> {
    let temporary = temporary_name(path)?;
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(contents)?;
        file.sync_all()
    });
    let renamed = written.and_then(|()| fs::rename(&temporary, path));
    if renamed.is_err() {
        // The first failure is the one to report; a file that was never created cannot be removed.
        let _ = fs::remove_file(&temporary);
    }
    renamed
}

fn temporary_name(path: &Path) -> io::Result<PathBuf> {
    let name =
        path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a file name"))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.tmp", std::process::id()));
    Ok(path.with_file_name(hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_whole_files_and_leaves_no_other() {
        let folder = std::env::temp_dir().join(format!("superweight-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("plan.json");
        write_whole(&path, b"one").unwrap();
        write_whole(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
        assert!(write_whole(&path, b"three").is_err());
    }

    #[test]
    fn a_name_that_is_none_is_an_error() {
        assert!(write_whole(Path::new("/"), b"").is_err());
        assert!(write_whole(Path::new(".."), b"").is_err());
    }
}
