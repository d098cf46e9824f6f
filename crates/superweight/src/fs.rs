//! Writes files atomically, reads files up to a limit, and checks names of folders.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Length of the longest name that [`check_name`] accepts.
const LONGEST_NAME: usize = 100;

/// Writes `contents` under a temporary name beside `path`, flushes it to the disk, then renames it.
///
/// A reader finds the old file or the new one, and a full disk leaves the old one unchanged.
/// Symbolic links are followed and an existing file keeps its permissions. Pipes and devices
/// (`/dev/stdout`) are written directly.
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

/// Checks the name of a run or of a packed data set: 1 to 100 letters, digits, `.`, `_` and `-`,
/// with neither `.` nor `-` at the start.
///
/// Such a name is one folder on every system, is not hidden, and is no flag of a command.
///
/// # Errors
/// Returns the rule that the name breaks.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match name {
        "" => Err("it is empty"),
        _ if name.len() > LONGEST_NAME => Err("it is longer than 100 characters"),
        _ if name.starts_with(['.', '-']) => Err("it begins with a dot or a dash"),
        _ if !name.chars().all(allowed) => {
            Err("it may have letters (a to z), digits, '.', '_' and '-' only")
        }
        _ => Ok(()),
    }
}

/// Reads a text of at most `limit` bytes; a longer file is an error.
pub fn read_at_most(path: &Path, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(limit + 1).read_to_string(&mut text)?;
    if text.len() as u64 > limit {
        let problem = format!("it is longer than {} MiB", limit >> 20);
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    Ok(text)
}

/// Flushes the entries of a folder to the disk: what was created, renamed or removed in it. Does
/// nothing on systems without such an operation (Windows).
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    match cfg!(unix) {
        true => File::open(path)?.sync_all(),
        false => Ok(()),
    }
}

/// Writes `bytes` at an offset of a file. Several threads may call this for one file.
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::write_all_at(file, bytes, offset);
    #[cfg(not(unix))]
    return at(file, offset, |mut file| file.write_all(bytes));
}

/// Fills `bytes` from an offset of a file. Several threads may call this for one file.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset);
    #[cfg(not(unix))]
    return at(file, offset, |mut file| file.read_exact(bytes));
}

/// Moves the position of a file and runs an operation there, one thread at a time.
#[cfg(not(unix))]
fn at(
    mut file: &File,
    offset: u64,
    operation: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _lock = LOCK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    io::Seek::seek(&mut file, io::SeekFrom::Start(offset))?;
    operation(file)
}

/// Hidden name beside `path` that no other process uses.
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
    fn write_whole_replaces_a_file_and_leaves_no_other() {
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
    fn write_whole_follows_links_keeps_permissions_and_writes_devices() {
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
    fn write_whole_refuses_paths_without_a_file_name() {
        assert!(write_whole(Path::new("/"), b"").is_err());
        assert!(write_whole(Path::new(".."), b"").is_err());
    }

    #[test]
    fn bytes_are_written_and_read_at_offsets() {
        let path = std::env::temp_dir().join(format!("superweight-at-{}", std::process::id()));
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        write_at(&file, b"def", 3).unwrap();
        write_at(&file, b"abc", 0).unwrap();
        let mut bytes = [0; 4];
        read_at(&file, &mut bytes, 1).unwrap();
        assert_eq!(&bytes, b"bcde");
        assert!(read_at(&file, &mut bytes, 3).is_err());
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn names_are_one_visible_folder_on_every_system() {
        for name in ["a", "wrn-28-10", "A_1.b", &"x".repeat(100)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for (name, reason) in [
            ("", "it is empty"),
            (&*"x".repeat(101), "it is longer than 100 characters"),
            (".", "it begins with a dot or a dash"),
            ("..", "it begins with a dot or a dash"),
            (".hidden", "it begins with a dot or a dash"),
            ("-rf", "it begins with a dot or a dash"),
            ("a/b", "it may have letters (a to z), digits, '.', '_' and '-' only"),
            ("a\\b", "it may have letters (a to z), digits, '.', '_' and '-' only"),
            ("c:", "it may have letters (a to z), digits, '.', '_' and '-' only"),
            ("a\nb", "it may have letters (a to z), digits, '.', '_' and '-' only"),
            ("gr\u{f6}\u{df}er", "it may have letters (a to z), digits, '.', '_' and '-' only"),
        ] {
            assert_eq!(check_name(name), Err(reason), "{name}");
        }
    }
}
