//! Reads numpy's `.npy` files of bytes, the format of CIFAR-10-C and CIFAR-100-C.
//!
//! ```text
//! \x93NUMPY │ 1 0 │ u16 length │ header │ bytes
//! header = {'descr': '|u1', 'fortran_order': False, 'shape': (50000, 32, 32, 3), }
//! ```
//!
//! A folder of these data sets has `labels.npy` and one file per corruption. Severity s is in rows
//! 10,000·(s − 1) to 10,000·s.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::data::DataError;
use crate::data::Images;

const MAGIC: &[u8] = b"\x93NUMPY";
/// Largest header in bytes that is read.
const HEADER_LIMIT: usize = 1 << 16;

/// Header of a file: the shape of its array and where the data begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Sizes of the axes, outermost first.
    pub shape: Vec<usize>,
    /// Byte offset of the data.
    pub offset: usize,
}

impl Header {
    /// Parses the beginning of a file; errors name it `path`.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, DataError> {
        let wrong = |offset: usize, expected: &str, found: &str| {
            Err(DataError::malformed(path, offset, expected, found))
        };
        if !bytes.starts_with(MAGIC) {
            return wrong(0, "a numpy file (.npy)", "another signature");
        }
        let (start, length) = match bytes.get(6..12) {
            Some(&[1, _, a, b, _, _]) => (10, u16::from_le_bytes([a, b]).into()),
            Some(&[2 | 3, _, a, b, c, d]) => (12, u32::from_le_bytes([a, b, c, d]) as usize),
            Some(&[version, ..]) => return wrong(6, "version 1, 2 or 3", &version.to_string()),
            _ => return wrong(6, "a header", "the end of the file"),
        };
        if length > HEADER_LIMIT {
            return wrong(8, "a short header", &format!("{length} bytes"));
        }
        let Some(header) = bytes.get(start..start + length) else {
            return wrong(start, &format!("a header of {length} bytes"), "the end of the file");
        };
        let text = String::from_utf8_lossy(header);
        let field = |name: &str| text.split(&format!("'{name}':")).nth(1).map(str::trim_start);
        let descr = field("descr").unwrap_or("nothing");
        if !(descr.starts_with("'|u1'") || descr.starts_with("'u1'") || descr.starts_with("'<u1'"))
        {
            let found: String = descr.chars().take(12).collect();
            return wrong(start, "bytes ('|u1')", &found);
        }
        if !field("fortran_order").unwrap_or("").starts_with("False") {
            return wrong(start, "rows one after another (fortran_order False)", "columns");
        }
        let sides = field("shape").and_then(|rest| rest.strip_prefix('(')?.split(')').next());
        let sides = sides.unwrap_or("").split(',').map(str::trim).filter(|side| !side.is_empty());
        let shape: Option<Vec<usize>> = sides.map(|side| side.parse().ok()).collect();
        match shape {
            Some(shape) => Ok(Self { shape, offset: start + length }),
            None => wrong(start, "a shape of whole numbers", "something else"),
        }
    }
}

/// Reads rows `from..from + count` of a file whose rows have the shape `row`.
pub fn read_rows(
    path: &Path,
    row: &[usize],
    from: usize,
    count: usize,
) -> Result<Vec<u8>, DataError> {
    let file = File::open(path).map_err(|error| DataError::read(path, error))?;
    rows_of(path, file, row, from, count)
}

/// Reads rows `from..from + count` of an open file, or of bytes in memory; errors name it `path`.
pub fn rows_of(
    path: &Path,
    mut file: impl Read + Seek,
    row: &[usize],
    from: usize,
    count: usize,
) -> Result<Vec<u8>, DataError> {
    let failed = |error| DataError::read(path, error);
    let length = file.seek(SeekFrom::End(0)).map_err(failed)?;
    file.rewind().map_err(failed)?;
    let mut start = vec![];
    file.by_ref().take(12 + HEADER_LIMIT as u64).read_to_end(&mut start).map_err(failed)?;
    let Header { shape, offset } = Header::parse(path, &start)?;
    let rows = shape.first().copied().unwrap_or(0);
    if shape.get(1..) != Some(row) || from.checked_add(count).is_none_or(|end| end > rows) {
        let expected = format!("rows {from} to {} of {row:?}", from.saturating_add(count));
        return Err(DataError::malformed(path, offset, expected, format!("an array of {shape:?}")));
    }
    let size: usize = row.iter().product();
    let end = (rows as u64).saturating_mul(size as u64).saturating_add(offset as u64);
    if end != length {
        let found = format!("{length} bytes");
        return Err(DataError::WrongSize { file: path.to_owned(), found, expected: end });
    }
    file.seek(SeekFrom::Start((offset + from * size) as u64)).map_err(failed)?;
    let mut bytes = vec![0; count * size];
    file.read_exact(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Number of images per severity in CIFAR-10-C and CIFAR-100-C.
pub const CORRUPTED_IMAGES: usize = 10_000;

/// Reads the images of one corruption `name` and severity (1 to 5) from a folder of CIFAR-10-C or
/// CIFAR-100-C.
pub fn corrupted(
    folder: &Path,
    name: &str,
    severity: usize,
    classes: usize,
) -> Result<Images, DataError> {
    let from = CORRUPTED_IMAGES * (severity - 1);
    let file = folder.join(format!("{name}.npy"));
    let pixels = read_rows(&file, &[32, 32, 3], from, CORRUPTED_IMAGES)?;
    let labels = folder.join("labels.npy");
    let read = read_rows(&labels, &[], from, CORRUPTED_IMAGES)?;
    if let Some(wrong) = read.iter().position(|&label| usize::from(label) >= classes) {
        let (offset, label) = ((from + wrong) as u64, read[wrong].into());
        return Err(DataError::Label { file: labels, offset, label, classes });
    }
    Ok(Images { pixels: pixels.into(), labels: read.into_iter().map(u16::from).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::Folder;
    use std::fs;

    fn npy(descr: &str, shape: &str, bytes: &[u8]) -> Vec<u8> {
        let mut header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        header.extend(std::iter::repeat_n(' ', 117 - header.len()));
        header.push('\n');
        [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), bytes]
            .concat()
    }

    #[test]
    fn severities_are_rows_of_published_files() {
        let folder = Folder::new("npy");
        let labels: Vec<u8> = (0..50_000).map(|i| (i / 10_000) as u8).collect();
        fs::write(folder.0.join("labels.npy"), npy("|u1", "(50000,)", &labels)).unwrap();
        let pixels: Vec<u8> = (0..50_000).flat_map(|i| [(i / 10_000) as u8; 3072]).collect();
        fs::write(folder.0.join("fog.npy"), npy("|u1", "(50000, 32, 32, 3)", &pixels)).unwrap();
        let third = corrupted(&folder.0, "fog", 3, 10).unwrap();
        assert_eq!((third.len(), third.image(9_999)[7], third.labels[0]), (10_000, 2, 2));
        let error = corrupted(&folder.0, "fog", 3, 2).unwrap_err().to_string();
        assert!(
            error.ends_with("byte 20000: label 2 is out of range: there are 2 classes"),
            "{error}"
        );
        assert!(corrupted(&folder.0, "snow", 1, 10).is_err());
    }

    #[test]
    fn other_files_are_errors_that_say_what_they_are() {
        let folder = Folder::new("npy-damage");
        let path = folder.0.join("a.npy");
        let error = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            read_rows(&path, &[2], 1, 1).unwrap_err().to_string()
        };
        let whole = npy("|u1", "(3, 2)", &[1, 2, 3, 4, 5, 6]);
        fs::write(&path, &whole).unwrap();
        assert_eq!(read_rows(&path, &[2], 1, 2).unwrap(), [3, 4, 5, 6]);
        for length in 0..whole.len() {
            error(&whole[..length]);
        }
        assert!(error(b"").contains("expected a numpy file (.npy)"));
        assert!(
            error(&npy("<f4", "(3, 2)", &[0; 24])).contains("expected bytes ('|u1'), found '<f4'")
        );
        assert!(error(&npy("|u1", "(3, 3)", &[0; 9])).contains("found an array of [3, 3]"));
        assert!(
            error(&npy("|u1", "(99999999999999999999, 2)", &[0; 6]))
                .contains("a shape of whole numbers")
        );
        assert!(
            error(&npy("|u1", "(9223372036854775807, 2)", &[0; 6])).contains("bytes are expected")
        );
    }
}
