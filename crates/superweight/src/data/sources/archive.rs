//! Reads the wanted files of a tar archive, once from front to back.
//!
//! A tar archive is a sequence of blocks of 512 bytes: a header (name, size in octal, checksum),
//! then the contents, padded. Links, devices, sparse files and folders are ignored: nothing is ever
//! written under a name from an archive.

use std::io::{self, Read};
use std::path::Path;

use crate::data::DataError;

/// Bytes of a block.
pub const BLOCK: usize = 512;

/// Whether this is the first block of a tar archive. Old archives lack the magic word; all have a
/// checksum.
pub fn is_tar(start: &[u8]) -> bool {
    start.len() == BLOCK && parse(Path::new(""), 0, start).is_ok()
}

/// Passes every wanted file to `take` until that returns true. A file is wanted if `limit` returns
/// its largest size.
pub fn walk(
    archive: &Path,
    reader: &mut dyn Read,
    limit: impl Fn(&str) -> Option<u64>,
    mut take: impl FnMut(&str, Vec<u8>) -> bool,
) -> Result<(), DataError> {
    let mut input = Input { archive, reader, offset: 0 };
    loop {
        let header = input.read(BLOCK as u64)?;
        if header.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        let (size, is_file) = parse(archive, input.offset - BLOCK, &header)?;
        let name = name(&header);
        let wanted = if is_file { limit(&name) } else { None };
        let padding = size.next_multiple_of(BLOCK as u64) - size;
        match wanted {
            Some(limit) if size > limit => {
                let found = format!("{size} bytes");
                return Err(DataError::WrongSize {
                    file: archive.join(name),
                    found,
                    expected: limit,
                });
            }
            Some(_) => {
                let bytes = input.read(size)?;
                if take(&name, bytes) {
                    return Ok(());
                }
                input.skip(padding)?;
            }
            None => input.skip(size + padding)?,
        }
    }
}

/// Size of the file that a header announces, and whether it is a plain file.
fn parse(archive: &Path, offset: usize, header: &[u8]) -> Result<(u64, bool), DataError> {
    // The checksum counts its own eight bytes as spaces.
    let sum: u64 = header
        .iter()
        .enumerate()
        .map(|(i, &byte)| if (148..156).contains(&i) { 32 } else { u64::from(byte) })
        .sum();
    match (octal(&header[148..156]), octal(&header[124..136])) {
        // A fuzzer cannot guess checksums.
        (Some(checksum), Some(size)) if checksum == sum || cfg!(fuzzing) => {
            Ok((size, matches!(header[156], b'0' | 0)))
        }
        _ => Err(DataError::malformed(archive, offset, "a tar header", "a wrong checksum")),
    }
}

/// Parses an octal number.
fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?;
    u64::from_str_radix(text.trim_matches([' ', '\0']), 8).ok()
}

/// Last component of the path. Paths that are longer than their field are never wanted.
fn name(header: &[u8]) -> String {
    let path = header[..100].split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(path.rsplit(|&byte| byte == b'/').next().unwrap_or_default())
        .into_owned()
}

/// An archive with the position of the next byte.
struct Input<'a> {
    archive: &'a Path,
    reader: &'a mut dyn Read,
    offset: usize,
}

impl Input<'_> {
    /// Reads `count` bytes. The buffer grows with the bytes that exist, whatever a header claims.
    fn read(&mut self, count: u64) -> Result<Vec<u8>, DataError> {
        let mut bytes = Vec::new();
        let result = (&mut *self.reader).take(count).read_to_end(&mut bytes);
        self.advance(result.map(|read| read as u64), count)?;
        Ok(bytes)
    }

    /// Skips `count` bytes.
    fn skip(&mut self, count: u64) -> Result<(), DataError> {
        let result = io::copy(&mut (&mut *self.reader).take(count), &mut io::sink());
        self.advance(result, count)
    }

    /// Moves the position by the bytes read; fewer than `count` are an error.
    fn advance(&mut self, read: io::Result<u64>, count: u64) -> Result<(), DataError> {
        let read = read.map_err(|error| unpacking(self.archive, self.offset, error))?;
        self.offset += read as usize;
        match read == count {
            true => Ok(()),
            false => {
                let expected = format!("{} bytes more", count - read);
                Err(DataError::malformed(
                    self.archive,
                    self.offset,
                    expected,
                    "the end of the archive",
                ))
            }
        }
    }
}

/// Error of reading compressed data: damage, or a failure of the operating system.
pub fn unpacking(file: &Path, offset: usize, error: io::Error) -> DataError {
    match error.raw_os_error() {
        Some(_) => DataError::read(file, error),
        None => DataError::malformed(file, offset, "whole gzip data", error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::tar;

    fn files(bytes: &[u8], wanted: &str) -> Result<Vec<Vec<u8>>, DataError> {
        let mut found = vec![];
        let limit = |name: &str| (name == wanted).then_some(1000);
        let take = |_: &str, bytes| {
            found.push(bytes);
            false
        };
        walk(Path::new("a.tar"), &mut &bytes[..], limit, take)?;
        Ok(found)
    }

    #[test]
    fn wanted_files_are_found_by_the_last_component_of_their_path() {
        let archive = tar(&[("d/other", &[1; 700]), ("d/e/mine", &[2; 600]), ("mine", &[3; 512])]);
        assert!(is_tar(&archive[..BLOCK]) && !is_tar(&[0; BLOCK]));
        assert_eq!(files(&archive, "mine").unwrap(), [vec![2; 600], vec![3; 512]]);
    }

    #[test]
    fn cut_damaged_and_oversized_archives_are_errors() {
        let archive = tar(&[("mine", &[2; 600])]);
        for cut in [0, 1, 511, 513, 1100, 1536] {
            assert!(files(&archive[..cut], "mine").is_err(), "{cut}");
        }
        let error = files(&archive[..1000], "mine").unwrap_err().to_string();
        assert_eq!(
            error,
            "a.tar, byte 1000: expected 112 bytes more, found the end of the archive"
        );
        let mut damaged = archive.clone();
        damaged[3] ^= 1;
        assert!(
            files(&damaged, "mine")
                .unwrap_err()
                .to_string()
                .contains("byte 0: expected a tar header")
        );
        let error = files(&tar(&[("mine", &[0; 1001])]), "mine").unwrap_err().to_string();
        assert_eq!(error, "a.tar/mine: 1001 bytes where 1000 bytes are expected; fetch it again");
    }
}
