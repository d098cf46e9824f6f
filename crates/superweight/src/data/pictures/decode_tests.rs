//! Decoding of each format, of damaged files, and of hostile sizes.

use serde::Deserialize;
use superweight_plan::arch::ImageShape;

use super::*;
use crate::data::pictures::orientation::exif_of;
use crate::data::testing::png_of;

fn decode(bytes: &[u8]) -> Result<Picture, DataError> {
    Picture::decode(Path::new("picture"), bytes)
}

fn error(bytes: &[u8]) -> String {
    decode(bytes).unwrap_err().to_string()
}

const WEBP: &[u8] = include_bytes!("../../../tests/fixtures/picture.webp");
const TURNED_WEBP: &[u8] = include_bytes!("../../../tests/fixtures/turned.webp");
const GIF: &[u8] = include_bytes!("../../../tests/fixtures/first-frame.gif");

#[test]
fn gray_and_transparent_png_pictures_become_rgb() {
    let gray = decode(&png_of(2, 1, png::ColorType::Grayscale, &[10, 200])).unwrap();
    assert_eq!(gray.rgb, [10, 10, 10, 200, 200, 200]);
    let clear = decode(&png_of(1, 1, png::ColorType::Rgba, &[100, 50, 0, 51])).unwrap();
    assert_eq!(clear.rgb, [20, 10, 0]);
}

#[derive(Deserialize)]
struct Expected {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
}

/// What Pillow decodes (`tests/fixtures/pictures.py`): lossless formats agree exactly, lossy WebP
/// within 2.
#[test]
fn webp_and_gif_pictures_decode_as_in_pillow() {
    let text = include_str!("../../../tests/fixtures/pictures.json");
    let expected: std::collections::BTreeMap<String, Expected> =
        serde_json::from_str(text).unwrap();
    for (name, bytes, tolerance) in
        [("picture.webp", WEBP, 2), ("turned.webp", TURNED_WEBP, 0), ("first-frame.gif", GIF, 0)]
    {
        let (found, expected) = (decode(bytes).unwrap(), &expected[name]);
        assert_eq!((found.width, found.height), (expected.width, expected.height), "{name}");
        let differences = found.rgb.iter().zip(&expected.rgb).map(|(a, b)| a.abs_diff(*b));
        let largest = differences.max().unwrap();
        assert!(largest <= tolerance, "{name}: {largest}");
        assert_eq!(found.fit(ImageShape::CIFAR).len(), 3072);
    }
}

fn gif_of(size: [u16; 2], frame: gif::Frame<'static>) -> Vec<u8> {
    let mut bytes = vec![];
    let palette = [10, 20, 30, 40, 50, 60];
    let mut encoder = gif::Encoder::new(&mut bytes, size[0], size[1], &palette).unwrap();
    encoder.write_frame(&frame).unwrap();
    drop(encoder);
    bytes
}

#[test]
fn a_gif_frame_lies_on_a_black_picture() {
    let frame = gif::Frame {
        left: 1,
        top: 1,
        width: 2,
        height: 1,
        transparent: Some(0),
        buffer: vec![1, 0].into(),
        ..gif::Frame::default()
    };
    let picture = decode(&gif_of([3, 2], frame)).unwrap();
    assert_eq!((picture.width, picture.height), (3, 2));
    assert_eq!(picture.rgb[..12], [0; 12]);
    assert_eq!(picture.rgb[12..], [40, 50, 60, 0, 0, 0]);
}

#[test]
fn transparent_webp_pictures_are_laid_over_black() {
    let mut bytes = vec![];
    let encoder = image_webp::WebPEncoder::new(&mut bytes);
    encoder.encode(&[100, 50, 0, 51], 1, 1, image_webp::ColorType::Rgba8).unwrap();
    assert_eq!(decode(&bytes).unwrap().rgb, [20, 10, 0]);
}

#[test]
fn photographs_are_turned_as_their_exif_data_state() {
    let jpeg = include_bytes!("../../../tests/fixtures/picture.jpg");
    let exif = [b"Exif\0\0", &exif_of(false, 6)[..]].concat();
    let length = (exif.len() as u16 + 2).to_be_bytes();
    let turned = [&jpeg[..2], &[0xff, 0xe1], &length, &exif, &jpeg[2..]].concat();
    let unturned = decode(jpeg).unwrap();
    assert_ne!(unturned.height, unturned.width);
    assert_eq!(decode(&turned).unwrap(), upright(unturned, 6));
    let mut bytes = vec![];
    let mut info = png::Info::with_size(3, 1);
    info.color_type = png::ColorType::Grayscale;
    info.exif_metadata = Some(exif_of(true, 8).into());
    let encoder = png::Encoder::with_info(&mut bytes, info).unwrap();
    encoder.write_header().unwrap().write_image_data(&[1, 2, 3]).unwrap();
    let turned = decode(&bytes).unwrap();
    assert_eq!((turned.height, turned.width, &turned.rgb[..3]), (3, 1, &[3; 3][..]));
}

/// A header may state any size; nothing is allocated for it.
#[test]
fn damaged_and_huge_files_are_errors() {
    assert!(error(b"").contains("found an empty file"));
    assert!(error(b"GIF89").contains("found none of their signatures"));
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
    // Some programs append data of their own.
    for appended in [&b"appended"[..], b"\xff\xda\x00\x08", &jpeg[..jpeg.len() / 2]] {
        assert!(decode(&[&jpeg[..], appended].concat()).is_ok());
    }
    let frame = jpeg.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0x4e, 0x20, 0x4e, 0x20]);
    assert!(error(&jpeg).contains("found 20000×20000"), "{}", error(&jpeg));
}

#[test]
fn damaged_webp_and_gif_files_are_errors() {
    for bytes in [WEBP, TURNED_WEBP] {
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{length} bytes");
        }
    }
    let frame = GIF.len() / 2;
    for length in 0..frame {
        assert!(decode(&GIF[..length]).is_err(), "{length} bytes");
    }
    for bytes in [WEBP, TURNED_WEBP, GIF] {
        for place in 0..bytes.len() * 8 {
            let mut flipped = bytes.to_vec();
            flipped[place / 8] ^= 1 << (place % 8);
            let _ = decode(&flipped);
        }
    }
}

#[test]
fn hostile_sizes_are_refused_before_anything_is_decoded() {
    // Logical screen of a GIF file, then a frame beyond it.
    let mut gif = GIF.to_vec();
    gif[6..10].copy_from_slice(&[0xff, 0xff, 0xff, 0xff]);
    assert!(error(&gif).contains("found 65535×65535"), "{}", error(&gif));
    let frame = gif::Frame { width: 2, height: 1, buffer: vec![1, 0].into(), ..Default::default() };
    let small = gif_of([1, 1], frame);
    assert!(error(&small).contains("expected a GIF picture"), "{}", error(&small));
    // The frame of a lossy WebP file: 14 bits each of width and height.
    let start = WEBP.windows(3).position(|code| code == [0x9d, 0x01, 0x2a]).unwrap();
    let mut webp = WEBP.to_vec();
    webp[start + 3..start + 7].copy_from_slice(&[0xff, 0x3f, 0xff, 0x3f]);
    assert!(error(&webp).contains("found 16383×16383"), "{}", error(&webp));
    // The same frame inside an extended file whose canvas is small.
    let canvas = [&b"VP8X\x0a\0\0\0"[..], &[0; 4], &[0, 0, 0], &[0, 0, 0]].concat();
    let body = [&b"WEBP"[..], &canvas, &webp[12..]].concat();
    let extended = [&b"RIFF"[..], &(body.len() as u32).to_le_bytes(), &body].concat();
    assert!(error(&extended).contains("found 16383×16383"), "{}", error(&extended));
    let canvas = [&b"VP8X\x0a\0\0\0"[..], &[0; 4], &[0xff; 6]].concat();
    let body = [&b"WEBP"[..], &canvas, &WEBP[12..]].concat();
    let extended = [&b"RIFF"[..], &(body.len() as u32).to_le_bytes(), &body].concat();
    assert!(decode(&extended).is_err());
}

#[test]
fn pictures_in_other_formats_are_named() {
    let bmp = error(b"BM6\0\0\0\0\0\0\0");
    let expected = "picture, byte 0: expected a PNG, JPEG, WebP or GIF picture, \
                    found a picture in BMP, which is not read: convert it to PNG or JPEG";
    assert_eq!(bmp, expected);
    assert!(error(b"\0\0\0\x1cftypheic\0\0\0\0").contains("in HEIC"));
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}
