//! PNG and JPEG files of any size as the image a network takes.
//!
//! A file says how large its picture is before anything of it is unpacked; more than [`MOST_PIXELS`] is refused there, so
//! that a small file cannot ask for gigabytes. Grey pictures become RGB and RGB ones grey as the network wants it;
//! transparency is laid on black; photographs are turned as their cameras say. Resizing keeps the proportions: the largest middle part of the right shape, averaged
//! where it gets smaller (a triangle as wide as the step), linear where it gets larger.
//!
//! `png` and `zune-jpeg`, not `image`: the two bring seven small crates, `image` with the same formats a dozen and a half.

use std::fs::{self, File};
use std::io::{Cursor, Read};
use std::path::Path;

use superweight_plan::arch::ImageShape;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::data::DataError;
use super::orientation::{orientation, upright};

/// Pixels of the largest picture that is unpacked: 64 million, 192 MB.
pub const MOST_PIXELS: usize = 1 << 26;
/// Bytes of the largest file that is read.
pub const MOST_BYTES: u64 = 1 << 28;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const JPEG: &[u8] = b"\xff\xd8\xff";

/// An unpacked picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Three bytes a pixel, row by row.
    pub rgb: Vec<u8>,
}

impl Picture {
    /// Reads a PNG or JPEG file.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let failed = |error| DataError::read(path, error);
        // A pipe may never say anything, and a device never end.
        if !fs::metadata(path).map_err(failed)?.is_file() {
            return Err(malformed(path, "a picture", "no plain file"));
        }
        let mut bytes = vec![];
        let file = File::open(path).map_err(failed)?;
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(malformed(
                path,
                "a picture",
                &format!("a file of more than {MOST_BYTES} bytes"),
            ));
        }
        Self::decode(path, &bytes)
    }

    /// Unpacks a file that is in memory; `path` is for errors.
    pub fn decode(path: &Path, bytes: &[u8]) -> Result<Self, DataError> {
        match bytes {
            _ if bytes.starts_with(PNG) => png(path, bytes),
            _ if bytes.starts_with(JPEG) => jpeg(path, bytes),
            [] => Err(malformed(path, "a PNG or JPEG picture", "an empty file")),
            _ => Err(malformed(path, "a PNG or JPEG picture", "neither signature")),
        }
    }

    /// As a network takes it, `[row][column][channel]`.
    ///
    /// # Panics
    /// Where the network takes neither one nor three channels.
    pub fn fit(&self, shape: ImageShape) -> Vec<u8> {
        assert!(matches!(shape.channels, 1 | 3), "pictures are grey or RGB");
        let fits = self.width * shape.height >= self.height * shape.width;
        // The middle part of the network's proportions, in pixels of the picture.
        let (rows, cols) = match fits {
            true => (self.height as f64, (self.height * shape.width) as f64 / shape.height as f64),
            false => ((self.width * shape.height) as f64 / shape.width as f64, self.width as f64),
        };
        let (top, left) = ((self.height as f64 - rows) / 2.0, (self.width as f64 - cols) / 2.0);
        let down = taps(self.height, top, rows, shape.height);
        let across = taps(self.width, left, cols, shape.width);
        let mut out = Vec::with_capacity(shape.height * shape.width * shape.channels);
        // Columns that have a say; a picture may be a million times as wide.
        let start = across[0].0;
        let end =
            across.iter().map(|(first, weights)| first + weights.len()).max().unwrap_or(start);
        let mut line = vec![0.0; (end - start) * 3];
        for (first, weights) in &down {
            line.fill(0.0);
            for (row, weight) in
                self.rgb[first * self.width * 3..].chunks(self.width * 3).zip(weights)
            {
                line.iter_mut()
                    .zip(&row[start * 3..])
                    .for_each(|(sum, &v)| *sum += weight * f64::from(v));
            }
            for (first, weights) in &across {
                let channel = |c: usize| {
                    weights
                        .iter()
                        .enumerate()
                        .map(|(i, w)| w * line[(first - start + i) * 3 + c])
                        .sum::<f64>()
                };
                let rgb = [0, 1, 2].map(channel);
                let byte = |v: f64| (v + 0.5).clamp(0.0, 255.0) as u8;
                match shape.channels {
                    1 => out.push(byte(0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2])),
                    _ => out.extend(rgb.map(byte)),
                }
            }
        }
        out
    }
}

/// Of every new place: the first old one, and weights from there that sum to 1.
fn taps(size: usize, from: f64, part: f64, to: usize) -> Vec<(usize, Vec<f64>)> {
    let step = part / to as f64;
    let reach = step.max(1.0);
    let tap = |i: usize| {
        let centre = from + (i as f64 + 0.5) * step - 0.5;
        let first = (centre - reach).ceil().clamp(0.0, (size - 1) as f64) as usize;
        let last = (centre + reach).floor().clamp(first as f64, (size - 1) as f64) as usize;
        let weight = |j: usize| (1.0 - (j as f64 - centre).abs() / reach).max(0.0);
        let mut weights: Vec<f64> = (first..=last).map(weight).collect();
        let total: f64 = weights.iter().sum();
        match total > 0.0 {
            true => weights.iter_mut().for_each(|w| *w /= total),
            false => weights.fill(1.0 / (last - first + 1) as f64),
        }
        (first, weights)
    };
    (0..to).map(tap).collect()
}

fn malformed(path: &Path, expected: &str, found: &str) -> DataError {
    DataError::malformed(path, 0, expected, found)
}

fn check_size(path: &Path, width: usize, height: usize) -> Result<(), DataError> {
    let pixels = width.checked_mul(height);
    match pixels.is_some_and(|pixels| (1..=MOST_PIXELS).contains(&pixels)) {
        true => Ok(()),
        false => {
            let expected = format!("a picture of 1 to {MOST_PIXELS} pixels (make it smaller)");
            Err(malformed(path, &expected, &format!("{width}×{height}")))
        }
    }
}

fn png(path: &Path, bytes: &[u8]) -> Result<Picture, DataError> {
    let failed = |error: png::DecodingError| malformed(path, "a PNG picture", &error.to_string());
    let mut decoder =
        png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: 8 * MOST_PIXELS });
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let (width, height) = {
        let header = decoder.read_header_info().map_err(failed)?;
        (header.width as usize, header.height as usize)
    };
    check_size(path, width, height)?;
    let mut reader = decoder.read_info().map_err(failed)?;
    let turned = reader.info().exif_metadata.as_deref().map_or(1, orientation);
    let size = reader.output_buffer_size();
    let size = size.ok_or_else(|| malformed(path, "a PNG picture", "more bytes than memory"))?;
    let mut pixels = vec![0; size];
    let info = reader.next_frame(&mut pixels).map_err(failed)?;
    pixels.truncate(info.buffer_size());
    let rgb = match info.color_type {
        png::ColorType::Grayscale => pixels.iter().flat_map(|&v| [v; 3]).collect(),
        png::ColorType::GrayscaleAlpha => {
            pixels.chunks_exact(2).flat_map(|v| [over_black(v[0], v[1]); 3]).collect()
        }
        png::ColorType::Rgb => pixels,
        png::ColorType::Rgba => {
            pixels.chunks_exact(4).flat_map(|v| [0, 1, 2].map(|c| over_black(v[c], v[3]))).collect()
        }
        png::ColorType::Indexed => {
            return Err(malformed(path, "a PNG picture", "an unexpanded palette"));
        }
    };
    Ok(upright(whole(path, width, height, rgb)?, turned))
}

fn over_black(value: u8, alpha: u8) -> u8 {
    ((u32::from(value) * u32::from(alpha) + 127) / 255) as u8
}

fn jpeg(path: &Path, bytes: &[u8]) -> Result<Picture, DataError> {
    let failed = |error: &dyn std::fmt::Debug| {
        malformed(path, "a JPEG picture", format!("{error:?}").trim_end())
    };
    // Strict: otherwise what is missing of a damaged picture would be grey, and nobody would know.
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(1 << 16)
        .set_max_height(1 << 16)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|error| failed(&error))?;
    let (width, height) = decoder
        .dimensions()
        .ok_or_else(|| malformed(path, "a JPEG picture", "one without a size"))?;
    check_size(path, width, height)?;
    let rgb = decoder.decode().map_err(|error| failed(&error))?;
    if !ends(bytes) {
        return Err(malformed(path, "a whole JPEG picture", "one that was cut off: copy it again"));
    }
    let turned = decoder.exif().map_or(1, |exif| orientation(exif));
    Ok(upright(whole(path, width, height, rgb)?, turned))
}

/// Whether the end of the picture comes after its scans: the decoder does not miss it in the last row of blocks. What
/// programs append after the end may be anything, so markers are walked one after another.
fn ends(jpeg: &[u8]) -> bool {
    let mut rest = &jpeg[2..];
    loop {
        // To the next marker: within a scan 0xff is followed by 0 or by the number of a restart, before one by 0xff.
        let is_marker = |pair: &[u8]| pair[0] == 0xff && !matches!(pair[1], 0 | 0xff | 0xd0..=0xd7);
        let Some(at) = rest.windows(2).position(is_marker) else { return false };
        let (marker, after) = (rest[at + 1], &rest[at + 2..]);
        if marker == 0xd9 {
            return true;
        }
        // Every other has a length, which counts its own two bytes.
        let length = after
            .get(..2)
            .map_or(0, |length| usize::from(u16::from_be_bytes([length[0], length[1]])));
        let Some(next) = after.get(length.max(2)..) else { return false };
        rest = next;
    }
}

fn whole(path: &Path, width: usize, height: usize, rgb: Vec<u8>) -> Result<Picture, DataError> {
    match rgb.len() == width * height * 3 {
        true => Ok(Picture { height, width, rgb }),
        false => {
            let expected = format!("{width}×{height} pixels");
            Err(malformed(path, &expected, &format!("{} bytes of them", rgb.len())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::pictures::orientation::exif_of;
    use crate::data::testing::png_of;

    const SHAPE: ImageShape = ImageShape { channels: 3, height: 2, width: 2 };

    fn decode(bytes: &[u8]) -> Result<Picture, DataError> {
        Picture::decode(Path::new("picture"), bytes)
    }

    #[test]
    fn every_kind_of_png_becomes_rgb() {
        let grey = decode(&png_of(2, 1, png::ColorType::Grayscale, &[10, 200])).unwrap();
        assert_eq!(grey.rgb, [10, 10, 10, 200, 200, 200]);
        let clear = decode(&png_of(1, 1, png::ColorType::Rgba, &[100, 50, 0, 51])).unwrap();
        assert_eq!(clear.rgb, [20, 10, 0]);
    }

    #[test]
    fn resizing_averages_and_keeps_proportions() {
        let same = Picture { height: 2, width: 2, rgb: (0..12).collect() };
        assert_eq!(same.fit(SHAPE), same.rgb);
        // Twice as wide as high: the middle two of four columns.
        let wide = Picture {
            height: 1,
            width: 4,
            rgb: [0, 80, 120, 240].iter().flat_map(|&v| [v; 3]).collect(),
        };
        let one = ImageShape { channels: 1, height: 1, width: 1 };
        let middle = wide.fit(one)[0];
        assert!((99..=101).contains(&middle), "{middle}");
        // A plane stays a plane, however it is scaled.
        let plane = Picture { height: 37, width: 61, rgb: vec![77; 37 * 61 * 3] };
        assert!(plane.fit(ImageShape::CIFAR).iter().all(|&v| v == 77));
        assert_eq!(plane.fit(ImageShape { channels: 1, height: 28, width: 28 }), vec![77; 784]);
        assert_eq!(
            Picture { height: 1, width: 1, rgb: vec![5; 3] }.fit(ImageShape::CIFAR),
            vec![5; 3072]
        );
    }

    #[test]
    fn photographs_are_turned_as_their_cameras_say() {
        let jpeg = include_bytes!("../../../tests/fixtures/picture.jpg");
        let exif = [b"Exif\0\0", &exif_of(false, 6)[..]].concat();
        let length = (exif.len() as u16 + 2).to_be_bytes();
        let turned = [&jpeg[..2], &[0xff, 0xe1], &length, &exif, &jpeg[2..]].concat();
        let lying = decode(jpeg).unwrap();
        assert_ne!(lying.height, lying.width);
        assert_eq!(decode(&turned).unwrap(), upright(lying, 6));
        let mut bytes = vec![];
        let mut info = png::Info::with_size(3, 1);
        info.color_type = png::ColorType::Grayscale;
        info.exif_metadata = Some(exif_of(true, 8).into());
        let encoder = png::Encoder::with_info(&mut bytes, info).unwrap();
        encoder.write_header().unwrap().write_image_data(&[1, 2, 3]).unwrap();
        let turned = decode(&bytes).unwrap();
        assert_eq!((turned.height, turned.width, &turned.rgb[..3]), (3, 1, &[3; 3][..]));
    }

    /// Only the middle of it is looked at: every row of the image had summed the whole width.
    #[test]
    fn a_very_wide_picture_costs_no_more_than_its_middle() {
        let width = 1 << 22;
        let wide = Picture { height: 1, width, rgb: vec![9; width * 3] };
        let begin = std::time::Instant::now();
        assert_eq!(
            wide.fit(ImageShape { channels: 3, height: 1024, width: 1024 }),
            vec![9; 3 << 20]
        );
        assert!(begin.elapsed().as_secs() < 10);
    }

    /// A header may promise anything; nothing is unpacked for it.
    #[test]
    fn damaged_and_huge_files_are_errors() {
        let error = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
        assert!(error(b"").contains("found an empty file"));
        assert!(error(b"GIF89a").contains("neither signature"));
        let whole = png_of(4, 4, png::ColorType::Rgb, &[9; 48]);
        for length in 1..whole.len() - 16 {
            assert!(decode(&whole[..length]).is_err(), "{length} bytes");
        }
        let mut huge = whole.clone();
        huge[16..24].copy_from_slice(&[0, 0, 0x4e, 0x20, 0, 0, 0x4e, 0x20]); // 20,000 × 20,000
        let crc = crc32(&huge[12..29]);
        huge[29..33].copy_from_slice(&crc.to_be_bytes());
        assert!(error(&huge).contains("found 20000×20000"), "{}", error(&huge));
        let mut jpeg = include_bytes!("../../../tests/fixtures/picture.jpg").to_vec();
        assert_eq!(decode(&jpeg).unwrap().rgb.len(), 24 * 16 * 3);
        for length in 1..jpeg.len() {
            assert!(decode(&jpeg[..length]).is_err(), "{length} bytes");
        }
        // Some programs append their own.
        for appended in [&b"appended"[..], b"\xff\xda\x00\x08", &jpeg[..jpeg.len() / 2]] {
            assert!(decode(&[&jpeg[..], appended].concat()).is_ok());
        }
        let frame = jpeg.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
        jpeg[frame + 5..frame + 9].copy_from_slice(&[0x4e, 0x20, 0x4e, 0x20]);
        assert!(error(&jpeg).contains("found 20000×20000"), "{}", error(&jpeg));
    }

    fn crc32(bytes: &[u8]) -> u32 {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum()
    }
}
