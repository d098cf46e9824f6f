//! Decodes PNG, JPEG, WebP and GIF files of any size.
//!
//! Each format states the size of its picture in a header; more than [`MAX_PIXELS`] is refused
//! there, so that a small file cannot demand gigabytes. Gray pictures become RGB, transparency is
//! laid over black, of an animation the first frame is read, and photographs are turned as their
//! EXIF data state.
//!
//! Four small decoders instead of the crate `image`: it brings twice as many crates with the same
//! formats.

use std::fs::{self, File};
use std::io::{Cursor, Read};
use std::num::NonZeroU64;
use std::path::Path;

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::format::{Format, READABLE, describe};
use super::orientation::{orientation, upright};
use super::picture::{MAX_PIXELS, Picture, check_size, over_black};
use crate::data::error::DataError;

/// Size in bytes of the largest file that is read.
const MAX_BYTES: u64 = 1 << 28;
/// Bytes that a decoder may allocate.
const MAX_MEMORY: usize = 8 * MAX_PIXELS;

impl Picture {
    /// Reads a picture from a file; see [`decode`](Self::decode).
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let failed = |error| DataError::read(path, error);
        // Reading a pipe may block forever, and a device may never end.
        if !fs::metadata(path).map_err(failed)?.is_file() {
            return Err(malformed(path, "a picture", "no plain file"));
        }
        let mut bytes = vec![];
        let file = File::open(path).map_err(failed)?;
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MAX_BYTES {
            let found = format!("a file of more than {MAX_BYTES} bytes");
            return Err(malformed(path, "a picture", &found));
        }
        Self::decode(path, &bytes)
    }

    /// Decodes a PNG, JPEG, WebP or GIF file in memory; of an animation the first frame. Errors
    /// name the file `path`.
    pub fn decode(path: &Path, bytes: &[u8]) -> Result<Self, DataError> {
        match Format::of(bytes) {
            Some(Format::Png) => png(path, bytes),
            Some(Format::Jpeg) => jpeg(path, bytes),
            Some(Format::WebP) => webp(path, bytes),
            Some(Format::Gif) => gif(path, bytes),
            None => Err(malformed(path, READABLE, &describe(bytes))),
        }
    }
}

fn malformed(path: &Path, expected: &str, found: &str) -> DataError {
    DataError::malformed(path, 0, expected, found)
}

fn png(path: &Path, bytes: &[u8]) -> Result<Picture, DataError> {
    let failed = |error: png::DecodingError| malformed(path, "a PNG picture", &error.to_string());
    let limits = png::Limits { bytes: MAX_MEMORY };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let header = decoder.read_header_info().map_err(failed)?;
    let (width, height) = (header.width as usize, header.height as usize);
    check_size(path, width, height)?;
    let mut reader = decoder.read_info().map_err(failed)?;
    let turned = reader.info().exif_metadata.as_deref().map_or(1, orientation);
    let size = reader.output_buffer_size();
    let size = size.ok_or_else(|| malformed(path, "a PNG picture", "more bytes than memory"))?;
    let mut pixels = vec![0; size];
    let info = reader.next_frame(&mut pixels).map_err(failed)?;
    pixels.truncate(info.buffer_size());
    let picture = match info.color_type {
        png::ColorType::Grayscale => {
            Picture::new(path, width, height, pixels.iter().flat_map(|&v| [v; 3]).collect())
        }
        png::ColorType::GrayscaleAlpha => {
            let gray = pixels.chunks_exact(2).flat_map(|v| [over_black(v[0], v[1]); 3]);
            Picture::new(path, width, height, gray.collect())
        }
        png::ColorType::Rgb => Picture::new(path, width, height, pixels),
        png::ColorType::Rgba => Picture::from_rgba(path, width, height, &pixels),
        png::ColorType::Indexed => Err(malformed(path, "a PNG picture", "an unexpanded palette")),
    };
    Ok(upright(picture?, turned))
}

fn jpeg(path: &Path, bytes: &[u8]) -> Result<Picture, DataError> {
    let failed = |error: &dyn std::fmt::Debug| {
        malformed(path, "a JPEG picture", format!("{error:?}").trim_end())
    };
    // Without strict mode the missing part of a damaged picture would be gray, without an error.
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(1 << 16)
        .set_max_height(1 << 16)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|error| failed(&error))?;
    let size = decoder.dimensions();
    let (width, height) =
        size.ok_or_else(|| malformed(path, "a JPEG picture", "one without a size"))?;
    check_size(path, width, height)?;
    let rgb = decoder.decode().map_err(|error| failed(&error))?;
    if !jpeg_ends(bytes) {
        return Err(malformed(path, "a whole JPEG picture", "one that was cut off: copy it again"));
    }
    let turned = decoder.exif().map_or(1, |exif| orientation(exif));
    Ok(upright(Picture::new(path, width, height, rgb)?, turned))
}

/// Whether a JPEG file has an end marker after its scans. The decoder does not notice a cut in the
/// last row of blocks. Programs append data of any kind after the end, so the markers are walked
/// one by one.
fn jpeg_ends(jpeg: &[u8]) -> bool {
    let mut rest = &jpeg[2..];
    loop {
        // Within a scan, 0xff comes before 0 or the number of a restart; fill bytes are 0xff too.
        let is_marker = |pair: &[u8]| pair[0] == 0xff && !matches!(pair[1], 0 | 0xff | 0xd0..=0xd7);
        let Some(at) = rest.windows(2).position(is_marker) else { return false };
        let (marker, after) = (rest[at + 1], &rest[at + 2..]);
        if marker == 0xd9 {
            return true;
        }
        // Every other marker has a length, which counts its own two bytes.
        let length = after
            .get(..2)
            .map_or(0, |length| usize::from(u16::from_be_bytes([length[0], length[1]])));
        let Some(next) = after.get(length.max(2)..) else { return false };
        rest = next;
    }
}

fn webp(path: &Path, bytes: &[u8]) -> Result<Picture, DataError> {
    let failed =
        |error: image_webp::DecodingError| malformed(path, "a WebP picture", &error.to_string());
    // The file states its length after "RIFF"; the decoder does not notice a cut in the last bytes.
    let length = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    if (bytes.len() as u64) < u64::from(length) + 8 {
        return Err(malformed(path, "a whole WebP picture", "one that was cut off: copy it again"));
    }
    let mut decoder = image_webp::WebPDecoder::new(Cursor::new(bytes)).map_err(failed)?;
    decoder.set_memory_limit(MAX_MEMORY);
    let (width, height) = decoder.dimensions();
    let (width, height) = (width as usize, height as usize);
    check_size(path, width, height)?;
    for (width, height) in webp_frames(bytes) {
        check_size(path, width, height)?;
    }
    let size = decoder.output_buffer_size();
    let size = size.ok_or_else(|| malformed(path, "a WebP picture", "more bytes than memory"))?;
    let mut pixels = vec![0; size];
    decoder.read_image(&mut pixels).map_err(failed)?;
    let picture = match decoder.has_alpha() {
        true => Picture::from_rgba(path, width, height, &pixels)?,
        false => Picture::new(path, width, height, pixels)?,
    };
    let exif = decoder.exif_metadata().map_err(failed)?;
    // Some programs write the identifier that EXIF data have in JPEG files.
    let turned =
        exif.map_or(1, |exif| orientation(exif.strip_prefix(b"Exif\0\0").unwrap_or(&exif)));
    Ok(upright(picture, turned))
}

/// Sizes in the headers of all lossy frames. The decoder allocates by these before it compares them
/// with the size of the picture.
fn webp_frames(bytes: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    // Chunk: "VP8 ", length; frame: three bytes, the start code 9d 01 2a, 14 bits each of width and
    // height.
    bytes.windows(18).filter_map(|chunk| {
        let side = |at: usize| usize::from(u16::from_le_bytes([chunk[at], chunk[at + 1]]) & 0x3fff);
        let is_frame = chunk.starts_with(b"VP8 ") && chunk[11..14] == [0x9d, 0x01, 0x2a];
        is_frame.then(|| (side(14), side(16)))
    })
}

/// Reads the first frame. Outside of it, and where it is transparent, the picture is black.
fn gif(path: &Path, bytes: &[u8]) -> Result<Picture, DataError> {
    let failed = |error: gif::DecodingError| malformed(path, "a GIF picture", &error.to_string());
    let mut options = gif::DecodeOptions::new();
    options.set_color_output(gif::ColorOutput::RGBA);
    options.check_frame_consistency(true);
    options.set_memory_limit(gif::MemoryLimit::Bytes(
        NonZeroU64::new(MAX_MEMORY as u64).expect("the limit is above 0"),
    ));
    let mut decoder = options.read_info(Cursor::new(bytes)).map_err(failed)?;
    let (width, height) = (usize::from(decoder.width()), usize::from(decoder.height()));
    check_size(path, width, height)?;
    let frame = decoder.read_next_frame().map_err(failed)?;
    let frame = frame.ok_or_else(|| malformed(path, "a GIF picture", "one without a frame"))?;
    let [top, left, columns] = [frame.top, frame.left, frame.width].map(usize::from);
    let mut rgba = vec![0; width * height * 4];
    for (row, pixels) in frame.buffer.chunks_exact((columns * 4).max(1)).enumerate() {
        rgba[((top + row) * width + left) * 4..][..pixels.len()].copy_from_slice(pixels);
    }
    Picture::from_rgba(path, width, height, &rgba)
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
