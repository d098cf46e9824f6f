//! Collects the files of a known data set in the standard layout. The source is a folder (or the
//! folder above it), an archive, or one of several files in a folder; plain or `.gz`; in the binary
//! or the Python layout.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::archive::{self, unpacking};
use super::catalog::{Entry, FileEntry, Layout};
use super::python;
use crate::data::DataError;

/// A file of a data set.
pub struct Found {
    /// Where the file was found, for error messages.
    pub path: PathBuf,
    /// Uncompressed contents.
    pub bytes: Vec<u8>,
}

/// Reads all files of a data set, in the order of the entry, and checks their sizes.
pub fn collect(entry: &Entry, from: &Path) -> Result<Vec<Found>, DataError> {
    let metadata = fs::metadata(from).map_err(|error| DataError::read(from, error))?;
    if metadata.is_dir() { folder(entry, from) } else { file(entry, from) }
}

/// Reads the files from a folder.
fn folder(entry: &Entry, from: &Path) -> Result<Vec<Found>, DataError> {
    let mut places = vec![from.to_owned(), from.join(entry.folder)];
    if let Layout::Cifar { python_folder, .. } = entry.layout {
        places.push(from.join(python_folder));
    }
    if let Some(place) = places
        .iter()
        .find(|place| Collected::new(entry).names().any(|name| there(place, name).is_some()))
    {
        let mut collected = Collected::new(entry);
        for (name, limit) in collected.wanted() {
            if let Some(path) = there(place, name) {
                let bytes = read(&path, limit)?;
                collected.put(name, Found { path, bytes });
            }
            if collected.complete() {
                break;
            }
        }
        return collected.finish(place);
    }
    let archives =
        entry.addresses.iter().filter_map(|address| Some(from.join(address.rsplit('/').next()?)));
    match archives.into_iter().find(|archive| archive.is_file()) {
        Some(archive) => file(entry, &archive),
        None => Collected::new(entry).finish(from),
    }
}

/// Path of the file with this name, plain or compressed.
fn there(folder: &Path, name: &str) -> Option<PathBuf> {
    [folder.join(name), folder.join(format!("{name}.gz"))].into_iter().find(|path| path.is_file())
}

/// Reads the files from an archive, or from the folder of the file `path`.
fn file(entry: &Entry, path: &Path) -> Result<Vec<Found>, DataError> {
    let file = File::open(path).map_err(|error| DataError::read(path, error))?;
    from_reader(entry, path, BufReader::new(file))
}

/// Reads an archive. If `file` is one of the files of the data set, reads all from its folder.
pub(in crate::data) fn from_reader(
    entry: &Entry,
    path: &Path,
    file: impl BufRead + 'static,
) -> Result<Vec<Found>, DataError> {
    let mut collected = Collected::new(entry);
    let mut reader = unpacked(file).map_err(|error| DataError::read(path, error))?;
    let mut start = vec![];
    (&mut reader)
        .take(archive::BLOCK as u64)
        .read_to_end(&mut start)
        .map_err(|error| unpacking(path, start.len(), error))?;
    if archive::is_tar(&start) {
        let wanted = collected.wanted();
        let limit =
            |name: &str| wanted.iter().find(|(known, _)| *known == name).map(|&(_, limit)| limit);
        archive::walk(path, &mut start.chain(reader), limit, |name, bytes| {
            collected.put(name, Found { path: path.join(name), bytes });
            collected.complete()
        })?;
        return collected.finish(path);
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match (collected.names().any(|known| known == name.trim_end_matches(".gz")), path.parent()) {
        (true, Some(parent)) if parent == Path::new("") => folder(entry, Path::new(".")),
        (true, Some(parent)) => folder(entry, parent),
        _ => {
            let (path, name, needed) = (path.to_owned(), entry.name.to_owned(), entry.file_names());
            Err(DataError::NotData { path, name, needed })
        }
    }
}

/// Decompresses a file if it is compressed.
fn unpacked(mut file: impl BufRead + 'static) -> io::Result<Box<dyn Read>> {
    let gzip = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(if gzip { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) })
}

/// Reads and decompresses a file; more than `limit` bytes are an error.
fn read(path: &Path, limit: u64) -> Result<Vec<u8>, DataError> {
    let mut bytes = vec![];
    let reader = File::open(path).and_then(|file| unpacked(BufReader::new(file)));
    let reader = reader.map_err(|error| DataError::read(path, error))?;
    let result = reader.take(limit + 1).read_to_end(&mut bytes);
    result.map_err(|error| unpacking(path, bytes.len(), error))?;
    match bytes.len() as u64 > limit {
        true => {
            let found = format!("more than {limit} bytes");
            Err(DataError::WrongSize { file: path.to_owned(), found, expected: limit })
        }
        false => Ok(bytes),
    }
}

/// Files of a data set that were found so far, in both layouts.
struct Collected<'a> {
    entry: &'a Entry,
    binary: Vec<Option<Found>>,
    python: Vec<Option<Found>>,
}

impl<'a> Collected<'a> {
    fn new(entry: &'a Entry) -> Self {
        let none = || entry.files.iter().map(|_| None).collect();
        Self { entry, binary: none(), python: none() }
    }

    /// Names of all files in both layouts.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.entry
            .files
            .iter()
            .map(|file| file.name)
            .chain(self.entry.files.iter().filter_map(|file| file.python))
    }

    /// Names of all files with their largest sizes. A pickle also contains file names and
    /// instructions.
    fn wanted(&self) -> Vec<(&'static str, u64)> {
        let binary = self.entry.files.iter().map(|file| (file.name, file.bytes));
        let python =
            self.entry.files.iter().filter_map(|file| Some((file.python?, 2 * file.bytes + 4096)));
        binary.chain(python).collect()
    }

    /// Stores a file by its name.
    fn put(&mut self, name: &str, found: Found) {
        for (i, file) in self.entry.files.iter().enumerate() {
            if file.name == name {
                self.binary[i] = Some(found);
                return;
            } else if file.python == Some(name) {
                self.python[i] = Some(found);
                return;
            }
        }
    }

    /// Whether all files of one layout were found.
    fn complete(&self) -> bool {
        [&self.binary, &self.python].into_iter().any(|files| files.iter().all(Option::is_some))
    }

    /// Returns the files of the layout of which more were found, converted to the standard layout.
    fn finish(self, place: &Path) -> Result<Vec<Found>, DataError> {
        let count = |files: &[Option<Found>]| files.iter().flatten().count();
        let from_python = count(&self.python) > count(&self.binary);
        let collected = if from_python { self.python } else { self.binary };
        let entry = self.entry;
        let whole = |(file, found): (&FileEntry, Option<Found>)| {
            let mut found = found.ok_or_else(|| DataError::Missing {
                place: place.to_owned(),
                missing: file.python.filter(|_| from_python).unwrap_or(file.name).to_owned(),
                name: entry.name.to_owned(),
                needed: entry.file_names(),
            })?;
            if let (true, Layout::Cifar { label_bytes, .. }) = (from_python, entry.layout) {
                found.bytes = python::to_binary(&found.path, &found.bytes, label_bytes)?;
            }
            if found.bytes.len() as u64 != file.bytes {
                let words = format!("{} bytes", found.bytes.len());
                return Err(DataError::WrongSize {
                    file: found.path,
                    found: words,
                    expected: file.bytes,
                });
            }
            Ok(found)
        };
        entry.files.iter().zip(collected).map(whole).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::{Fixture, Folder, cifar_entry, gzip, idx_entry, tar};

    fn same(fixture: &Fixture, from: &Path) {
        let found = collect(&fixture.entry, from).unwrap();
        assert!(
            found.iter().map(|f| &f.bytes).eq(fixture.files.iter().map(|(_, bytes)| bytes)),
            "{from:?}"
        );
    }

    fn refused(fixture: &Fixture, from: &Path) -> String {
        let error = collect(&fixture.entry, from).err().expect("refused").to_string();
        error.replace(&from.display().to_string(), "HERE")
    }

    #[test]
    fn folders_parents_files_and_archives_give_the_same_files() {
        for fixture in [cifar_entry(), idx_entry()] {
            let folder = Folder::new("source");
            let inside = folder.0.join("parent").join(fixture.entry.folder);
            fixture.write(&inside);
            same(&fixture, &inside);
            same(&fixture, &folder.0.join("parent"));
            same(&fixture, &inside.join(fixture.files[0].0));

            let members: Vec<_> =
                fixture.files.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
            let archive = folder.0.join("any-name.tgz");
            fs::write(&archive, gzip(&tar(&members))).unwrap();
            same(&fixture, &archive);
            fs::write(&archive, tar(&members)).unwrap();
            same(&fixture, &archive);
            let official = fixture.entry.addresses[0].rsplit('/').next().unwrap();
            fs::create_dir(folder.0.join("downloads")).unwrap();
            fs::rename(&archive, folder.0.join("downloads").join(official)).unwrap();
            same(&fixture, &folder.0.join("downloads"));

            let compressed = folder.0.join("compressed");
            fs::create_dir(&compressed).unwrap();
            for (name, bytes) in &fixture.files {
                fs::write(compressed.join(format!("{name}.gz")), gzip(bytes)).unwrap();
            }
            same(&fixture, &compressed);
            same(&fixture, &compressed.join(format!("{}.gz", fixture.files[1].0)));
        }
    }

    #[test]
    fn the_python_layout_gives_the_same_files() {
        let fixture = cifar_entry();
        let folder = Folder::new("source-python");
        for (name, bytes) in fixture.python() {
            fs::write(folder.0.join(name), bytes).unwrap();
        }
        same(&fixture, &folder.0);
        let members = fixture.python();
        let members: Vec<_> = members.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
        let archive = folder.0.join("python.tar.gz");
        fs::write(&archive, gzip(&tar(&members))).unwrap();
        same(&fixture, &archive);
        fs::remove_file(folder.0.join("test")).unwrap();
        assert_eq!(
            refused(&fixture, &folder.0),
            "HERE has no test: tiny-cifar consists of train.bin, test.bin"
        );
    }

    #[test]
    fn errors_name_the_file_and_the_problem() {
        let fixture = cifar_entry();
        let folder = Folder::new("source-bad");
        let here = &folder.0;
        assert_eq!(
            refused(&fixture, here),
            "HERE has no train.bin: tiny-cifar consists of train.bin, test.bin"
        );
        assert_eq!(refused(&fixture, &here.join("none")), "HERE could not be read");
        fixture.write(here);
        fs::write(here.join("train.bin"), &fixture.files[0].1[1..]).unwrap();
        assert_eq!(
            refused(&fixture, here),
            "HERE/train.bin: 999 bytes where 1000 bytes are expected; fetch it again"
        );
        fs::write(here.join("train.bin"), vec![0; 5000]).unwrap();
        assert_eq!(
            refused(&fixture, here),
            "HERE/train.bin: more than 1000 bytes where 1000 bytes are expected; fetch it again"
        );
        fs::remove_file(here.join("test.bin")).unwrap();
        fs::write(here.join("train.bin"), &fixture.files[0].1).unwrap();
        assert_eq!(
            refused(&fixture, here),
            "HERE has no test.bin: tiny-cifar consists of train.bin, test.bin"
        );
        fs::write(here.join("page.tar.gz"), "<html>").unwrap();
        assert_eq!(
            refused(&fixture, &here.join("page.tar.gz")),
            "HERE is neither an archive (.tar.gz) nor one of train.bin, test.bin: give the folder or archive of \
             tiny-cifar"
        );
        let archive =
            gzip(&tar(&[("train.bin", &fixture.files[0].1), ("test.bin", &fixture.files[1].1)]));
        fs::write(here.join("cut.tar.gz"), &archive[..archive.len() / 2]).unwrap();
        assert!(refused(&fixture, &here.join("cut.tar.gz")).contains("expected whole gzip data"));
    }
}
