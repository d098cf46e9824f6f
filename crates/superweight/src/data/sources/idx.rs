//! Reads MNIST's IDX layout: a magic number (0x0803 images, 0x0801 labels), big-endian sizes, then
//! bytes.

use std::path::Path;

use superweight_plan::arch::ImageShape;

use crate::data::DataError;

/// Pixels of a file of images, which must have this shape.
pub fn images(file: &Path, bytes: &[u8], shape: ImageShape) -> Result<Vec<u8>, DataError> {
    let [count, height, width] = header(file, bytes, 0x0803)?;
    for (at, found, expected, what) in
        [(8, height, shape.height, "rows"), (12, width, shape.width, "columns")]
    {
        if found as usize != expected {
            return Err(DataError::malformed(
                file,
                at,
                format!("{expected} {what}"),
                found.to_string(),
            ));
        }
    }
    body(file, bytes, 16, u64::from(count) * u64::from(height) * u64::from(width))
        .map(<[u8]>::to_vec)
}

/// Labels of a file of labels, which must be as many as there are images.
pub fn labels(
    file: &Path,
    bytes: &[u8],
    images: usize,
    classes: usize,
) -> Result<Vec<u16>, DataError> {
    let [count] = header(file, bytes, 0x0801)?;
    if count as usize != images {
        return Err(DataError::malformed(
            file,
            4,
            format!("{images} labels, as there are images"),
            count.to_string(),
        ));
    }
    let label = |(i, &label): (usize, &u8)| match usize::from(label) < classes {
        true => Ok(u16::from(label)),
        false => {
            let (offset, label) = (8 + i as u64, u64::from(label));
            Err(DataError::Label { file: file.to_owned(), offset, label, classes })
        }
    };
    body(file, bytes, 8, u64::from(count))?.iter().enumerate().map(label).collect()
}

/// Sizes in the header of a file with this magic number.
fn header<const SIZES: usize>(
    file: &Path,
    bytes: &[u8],
    magic: u32,
) -> Result<[u32; SIZES], DataError> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
        let missing = || {
            DataError::malformed(file, at, "a header of four-byte numbers", "the end of the file")
        };
        bytes.map(u32::from_be_bytes).ok_or_else(missing)
    };
    match word(0)? {
        found if found != magic => Err(DataError::malformed(
            file,
            0,
            format!("the number {magic:#010x}"),
            format!("{found:#010x}"),
        )),
        _ => {
            let mut sizes = [0; SIZES];
            for (i, size) in sizes.iter_mut().enumerate() {
                *size = word(4 + 4 * i)?;
            }
            Ok(sizes)
        }
    }
}

/// Bytes after the header, which must be `expected`. The product of the sizes fits, since the
/// caller has checked two of the three.
fn body<'a>(
    file: &Path,
    bytes: &'a [u8],
    start: usize,
    expected: u64,
) -> Result<&'a [u8], DataError> {
    let body = &bytes[start..];
    if body.len() as u64 != expected {
        let expected = format!("{expected} bytes to follow, as the header says");
        return Err(DataError::malformed(file, start, expected, body.len().to_string()));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: ImageShape = ImageShape { channels: 1, height: 2, width: 3 };

    fn image_file() -> Vec<u8> {
        let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3];
        bytes.extend(0..12);
        bytes
    }

    #[test]
    fn whole_files_are_read() {
        let file = Path::new("i");
        assert_eq!(images(file, &image_file(), SHAPE).unwrap(), (0..12).collect::<Vec<u8>>());
        assert_eq!(labels(file, &[0, 0, 8, 1, 0, 0, 0, 2, 1, 0], 2, 2).unwrap(), [1, 0]);
    }

    /// Every cut, and every change of a byte of the header, is an error and not a panic.
    #[test]
    fn damaged_files_are_errors() {
        let whole = image_file();
        for cut in 0..whole.len() {
            images(Path::new("i"), &whole[..cut], SHAPE).unwrap_err();
        }
        for at in 0..16 {
            for value in [1, 2, 3, 127, 255u8] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                assert!(
                    bytes == whole || images(Path::new("i"), &bytes, SHAPE).is_err(),
                    "{at} {value}"
                );
            }
        }
    }

    #[test]
    fn errors_name_file_offset_and_expectation() {
        let mut bytes = image_file();
        bytes[7] = 3;
        assert_eq!(
            images(Path::new("i"), &bytes, SHAPE).unwrap_err().to_string(),
            "i, byte 16: expected 18 bytes to follow, as the header says, found 12"
        );
        bytes[3] = 1;
        assert_eq!(
            images(Path::new("i"), &bytes, SHAPE).unwrap_err().to_string(),
            "i, byte 0: expected the number 0x00000803, found 0x00000801"
        );
        assert_eq!(
            labels(Path::new("l"), &[0, 0, 8, 1, 0, 0, 0, 2, 1, 2], 2, 2).unwrap_err().to_string(),
            "l, byte 9: label 2 is out of range: there are 2 classes"
        );
        assert_eq!(
            labels(Path::new("l"), &[0, 0, 8, 1, 0, 0, 0, 2, 1, 2], 3, 2).unwrap_err().to_string(),
            "l, byte 4: expected 3 labels, as there are images, found 2"
        );
    }
}
