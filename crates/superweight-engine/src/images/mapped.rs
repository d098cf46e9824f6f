//! Bytes of a file that need not fit into memory.

use std::fs::File;
use std::io;
use std::ops::Range;

use memmap2::{Mmap, MmapOptions};

use super::pixels::Pixels;

/// What follows the beginning of a file, as if it were in memory: the system reads what is looked at, and forgets it again
/// when memory is scarce.
///
/// A file that is cut short, or whose disk fails, while somebody looks ends the program; one that is written to meanwhile is
/// seen to change. So this is for files that are made once, and replaced by others under their names.
#[derive(Debug)]
pub struct MappedFile(Mmap);

impl MappedFile {
    /// `length` bytes after the first `from`. The file may be closed afterwards, renamed and removed.
    pub fn new(file: &File, from: usize, length: usize) -> io::Result<Self> {
        if file.metadata()?.len() < from as u64 + length as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: bytes behind a reference must not change, which no function can see to: it is what is said above. Whatever they
        // are, nothing but numbers is made of them.
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
        // A hint; where it is not taken, looking takes longer.
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
    fn bytes_are_those_of_the_file_and_outlive_its_name() {
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
