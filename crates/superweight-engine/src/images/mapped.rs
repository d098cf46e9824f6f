//! Memory-mapped files of image bytes.

use std::fs::File;
use std::io;
use std::ops::Range;

use memmap2::{Mmap, MmapOptions};

use super::pixels::Pixels;

/// A memory-mapped part of a file. The operating system loads pages when they are read and may drop
/// them when memory is scarce.
///
/// Reading from a file that was truncated, or whose disk fails, terminates the process. Writes to
/// the file become visible. So this is meant for files that are written once and replaced by
/// renaming.
#[derive(Debug)]
pub struct MappedFile(Mmap);

impl MappedFile {
    /// Maps `length` bytes after the first `from` bytes. The file may then be closed, renamed or
    /// removed.
    pub fn new(file: &File, from: usize, length: usize) -> io::Result<Self> {
        if file.metadata()?.len() < from as u64 + length as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: the mapped bytes must not change while they are borrowed, which no function can
        // enforce; the type's documentation states this. Any byte values are valid, because they
        // are only used as integers.
        unsafe { MmapOptions::new().offset(from as u64).len(length).map(file) }.map(Self)
    }
}

impl Pixels for MappedFile {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn in_memory(&self) -> bool {
        false
    }

    fn prefetch(&self, range: Range<usize>) {
        // A hint: without it, the first read is slower.
        #[cfg(unix)]
        let _ = self.0.advise_range(memmap2::Advice::WillNeed, range.start, range.len());
        #[cfg(not(unix))]
        let _ = range;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn mapped_bytes_equal_the_file_and_survive_its_removal() {
        let path = std::env::temp_dir().join(format!("swn-mapped-{}", std::process::id()));
        let bytes: Vec<u8> = (0..10_000u32).map(|i| (i * 31 % 256) as u8).collect();
        File::create(&path).unwrap().write_all(&bytes).unwrap();
        let file = File::open(&path).unwrap();
        for from in [0, 1, 128, 4096, 9_999, 10_000] {
            let mapped = MappedFile::new(&file, from, bytes.len() - from).unwrap();
            mapped.prefetch(0..mapped.bytes().len());
            assert_eq!(mapped.bytes(), &bytes[from..], "{from}");
        }
        assert!(MappedFile::new(&file, 7, bytes.len() - 6).is_err());
        let mapped = MappedFile::new(&file, 7, bytes.len() - 7).unwrap();
        drop(file);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(mapped.bytes(), &bytes[7..]);
        assert!(!mapped.in_memory());
    }
}
