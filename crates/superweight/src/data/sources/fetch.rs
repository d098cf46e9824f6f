//! Puts a known data set into the data folder: downloads or reads its files, verifies, writes and
//! renames.
//!
//! Files are written to a hidden folder, which is renamed when it is whole and on the disk
//! (`staging.rs`). So a reader never finds a part of a data set, and a kill or a full disk leaves
//! the previous state.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::catalog::Entry;
use super::download;
use super::source;
use super::staging::{Staging, unwritable};
use super::verify::check;
use crate::data::DataError;

/// Progress of [`fetch`] and [`install`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Step<'a> {
    /// A download from this address begins.
    Downloading(&'a str),
    /// Reading and verification of this file or folder begins.
    Reading(&'a Path),
    /// Writing of this folder begins.
    Writing(&'a Path),
}

/// Downloads a data set into the data folder `to`, from the address `mirror` instead of the
/// official one if given. Returns the folder of the data set.
pub fn fetch(
    entry: &Entry,
    to: &Path,
    mirror: Option<&str>,
    report: &mut dyn FnMut(Step),
) -> Result<PathBuf, DataError> {
    let staging = Staging::new(to, &format!("{}.download", entry.folder))?;
    for official in entry.addresses {
        let name = official.rsplit('/').next().unwrap_or(official);
        let address = match mirror {
            Some(mirror) => format!("{}/{name}", mirror.trim_end_matches('/')),
            None => official.to_string(),
        };
        report(Step::Downloading(&address));
        download::download(&address, &staging.path.join(name))?;
    }
    install(entry, &staging.path, to, report)
}

/// Copies a data set from a file, folder or archive into the data folder `to`, after verification.
/// Returns the folder of the data set.
pub fn install(
    entry: &Entry,
    from: &Path,
    to: &Path,
    report: &mut dyn FnMut(Step),
) -> Result<PathBuf, DataError> {
    report(Step::Reading(from));
    let files = source::collect(entry, from)?;
    for (found, file) in files.iter().zip(entry.files) {
        check(found, file)?;
    }
    let target = to.join(entry.folder);
    report(Step::Writing(&target));
    let staging = Staging::new(to, entry.folder)?;
    for (found, file) in files.iter().zip(entry.files) {
        write_file(&staging.path.join(file.name), &[&found.bytes])?;
    }
    staging.replace(&target)?;
    Ok(target)
}

/// Writes a file from several parts and flushes it to the disk.
pub(in crate::data) fn write_file(path: &Path, parts: &[&[u8]]) -> Result<(), DataError> {
    let write = || {
        let mut out = File::create(path)?;
        parts.iter().try_for_each(|part| out.write_all(part))?;
        out.sync_all()
    };
    write().map_err(|error| unwritable(path, error))
}

#[cfg(test)]
mod tests {
    use std::{fs, io};

    use super::*;
    use crate::data::sources::verify::{State, verify};
    use crate::data::testing::{Fixture, Folder, Tmpfs, cifar_entry, gzip, tar};

    fn whole(fixture: &Fixture, to: &Path) -> bool {
        verify(&fixture.entry, to).iter().all(|file| matches!(file.state, State::Whole))
    }

    fn entries(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .map(|entries| entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect())
            .unwrap_or_default();
        names.sort();
        names
    }

    fn install_quietly(fixture: &Fixture, from: &Path, to: &Path) -> Result<PathBuf, DataError> {
        install(&fixture.entry, from, to, &mut |_| {})
    }

    #[test]
    fn installing_replaces_a_set_and_leaves_nothing_else() {
        let (fixture, folder) = (cifar_entry(), Folder::new("install"));
        let (from, to) = (folder.0.join("from"), folder.0.join("to/deep"));
        fixture.write(&from);
        for _ in 0..2 {
            assert_eq!(
                install_quietly(&fixture, &from, &to).unwrap(),
                to.join("tiny-cifar-binary")
            );
            assert!(whole(&fixture, &to));
            assert_eq!(entries(&to), ["tiny-cifar-binary"]);
            // The second round replaces the damaged file.
            fs::write(to.join("tiny-cifar-binary/train.bin"), b"damaged").unwrap();
        }
        assert!(install_quietly(&fixture, &to, &to).is_err());
    }

    #[test]
    fn files_that_fail_verification_change_nothing() {
        let (fixture, folder) = (cifar_entry(), Folder::new("install-bad"));
        let (from, to) = (folder.0.join("from"), folder.0.join("to"));
        fixture.write(&from);
        install_quietly(&fixture, &from, &to).unwrap();
        let mut bytes = fixture.files[1].1.clone();
        bytes[0] ^= 1;
        fs::write(from.join("test.bin"), bytes).unwrap();
        let error = install_quietly(&fixture, &from, &to).unwrap_err().to_string();
        assert!(
            error.contains("from/test.bin: SHA-256 ") && error.contains("fetch it again"),
            "{error}"
        );
        assert!(whole(&fixture, &to));
        assert_eq!(entries(&to), ["tiny-cifar-binary"]);
    }

    #[test]
    fn downloads_from_a_mirror() {
        if std::process::Command::new("curl").arg("--version").output().is_err() {
            eprintln!("skipped: curl is not installed");
            return;
        }
        let (fixture, folder) = (cifar_entry(), Folder::new("fetch"));
        let to = folder.0.join("to");
        let mirror = format!("file://{}", folder.0.display());
        let mut steps = 0;
        let mut fetch = || fetch(&fixture.entry, &to, Some(&mirror), &mut |_| steps += 1);
        let error = fetch().unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{mirror}/tiny.tar.gz could not be downloaded: curl: (37)")),
            "{error}"
        );
        assert_eq!(entries(&to), [""; 0]);
        let members: Vec<_> =
            fixture.files.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
        fs::write(folder.0.join("tiny.tar.gz"), gzip(&tar(&members))).unwrap();
        fetch().unwrap();
        assert!(whole(&fixture, &to));
        assert_eq!(entries(&to), ["tiny-cifar-binary"]);
        fs::write(folder.0.join("tiny.tar.gz"), "<html>please log in</html>").unwrap();
        let error = fetch().unwrap_err().to_string();
        assert!(error.contains("is neither an archive"), "{error}");
        assert!(whole(&fixture, &to));
        assert_eq!(steps, 1 + 3 + 2);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named_in_the_error() {
        let (fixture, folder) = (cifar_entry(), Folder::new("install-file"));
        fixture.write(&folder.0);
        let error = install_quietly(&fixture, &folder.0, &folder.0.join("train.bin/data"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("could not be written; choose another folder with --out or SWN_DATA"),
            "{error}"
        );
    }

    #[test]
    fn a_full_disk_or_a_read_only_folder_keeps_the_installed_set() {
        let (fixture, folder) = (cifar_entry(), Folder::new("install-full"));
        let from = folder.0.join("from");
        fixture.write(&from);
        let Some(disk) = Tmpfs::mount(&folder.0.join("disk"), "size=16k") else {
            eprintln!("skipped: a tmpfs can be mounted by root only");
            return;
        };
        install_quietly(&fixture, &from, &disk.0).unwrap();
        let free = entries(&disk.0);
        while fs::write(disk.0.join(format!("fill{}", entries(&disk.0).len())), [0; 4096]).is_ok() {
        }
        let error = install_quietly(&fixture, &from, &disk.0).unwrap_err();
        let DataError::Io { source, .. } = &error else { panic!("{error}") };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        assert!(whole(&fixture, &disk.0));
        assert!(
            entries(&disk.0).iter().all(|name| free.contains(name) || name.starts_with("fill"))
        );

        disk.make_read_only();
        let error = install_quietly(&fixture, &from, &disk.0).unwrap_err();
        let DataError::Io { source, .. } = &error else { panic!("{error}") };
        assert_eq!(source.kind(), io::ErrorKind::ReadOnlyFilesystem);
        assert!(whole(&fixture, &disk.0));
    }
}
