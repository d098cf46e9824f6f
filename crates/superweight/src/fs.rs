//! Files that are there whole or not at all.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Writes `contents` under a temporary name beside `path`, syncs, then renames: a reader sees the old file or the new
/// one, and a full disk leaves the old one as it was. A link is followed, and an existing file's permissions are kept;
/// what is no plain file (a pipe, `/dev/stdout`) is written as it is.
pub fn write_whole(path: &Path, contents: &[u8]) -> io::Result<()> {
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let existing = fs::metadata(path).ok();
    if existing.as_ref().is_some_and(|existing| !existing.is_file() && !existing.is_dir()) {
        return File::options().write(true).open(path)?.write_all(contents);
    }
    let temporary = temporary_name(path)?;
    let written = File::create(&temporary).and_then(|mut file| {
        if let Some(existing) = &existing {
            file.set_permissions(existing.permissions())?;
        }
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

/// Whether a name is a folder's wherever it is made: letters, digits, `.`, `_` and `-`, at most 100, no hidden one and no flag.
pub fn names_a_folder(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=100).contains(&name.len()) && !name.starts_with(['.', '-']) && name.chars().all(plain)
}

/// A text of at most so many bytes: what is longer is not what somebody meant to give.
pub fn read_at_most(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        let problem = format!("it is longer than {} MiB", most >> 20);
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    Ok(text)
}

fn temporary_name(path: &Path) -> io::Result<PathBuf> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a file name"))?;
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

    #[cfg(unix)]
    #[test]
    fn links_permissions_and_devices_survive() {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
        let folder = std::env::temp_dir().join(format!("superweight-links-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (file, link) = (folder.join("plan.json"), folder.join("link.json"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&file, &link).unwrap();
        write_whole(&link, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        write_whole(Path::new("/dev/null"), b"nothing").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        assert!(write_whole(&folder, b"a folder").is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_name_that_is_none_is_an_error() {
        assert!(write_whole(Path::new("/"), b"").is_err());
        assert!(write_whole(Path::new(".."), b"").is_err());
    }
}
