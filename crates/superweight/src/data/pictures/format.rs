//! Recognizes picture formats: by signature those that are decoded, and by signature or file ending
//! those that are not, so that an error can name them.

use std::path::Path;

/// A format that [`Picture::decode`](crate::data::Picture::decode) reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Png,
    Jpeg,
    WebP,
    Gif,
}

/// All readable formats, for error messages.
pub(super) const READABLE: &str = "a PNG, JPEG, WebP or GIF picture";

/// File endings of readable formats, in lower case.
const READABLE_ENDINGS: [&str; 5] = ["png", "jpg", "jpeg", "webp", "gif"];

/// File endings of pictures in other formats, in lower case. Raw files of cameras are missing on
/// purpose: they usually lie beside a JPEG file of the same photograph.
const OTHER_ENDINGS: [&str; 14] = [
    "bmp", "dib", "tif", "tiff", "heic", "heif", "avif", "jxl", "jp2", "tga", "ppm", "pgm", "pbm",
    "pnm",
];

/// Whether a file is a picture by its ending, in a format that is read or in another one, which
/// [`Picture::open`](crate::data::Picture::open) names in its error.
pub fn is_picture(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    [&READABLE_ENDINGS[..], &OTHER_ENDINGS].iter().any(|known| known.contains(&ending.as_str()))
}

impl Format {
    /// Format of a file by its first bytes.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::WebP),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            _ => None,
        }
    }
}

/// What a file that is not readable contains, by its first bytes, as the end of "found …".
pub(super) fn describe(bytes: &[u8]) -> String {
    let name = match bytes {
        [] => return "an empty file".to_owned(),
        [b'B', b'M', ..] => "BMP",
        [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] => "TIFF",
        [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', ..] => "AVIF",
        [_, _, _, _, b'f', b't', b'y', b'p', b'h' | b'm', b'e' | b'i', ..] => "HEIC",
        [0xff, 0x0a, ..] | [0, 0, 0, 12, b'J', b'X', b'L', b' ', ..] => "JPEG XL",
        [0, 0, 0, 12, b'j', b'P', b' ', b' ', ..] => "JPEG 2000",
        [b'P', b'1'..=b'6', b' ' | b'\n' | b'\r' | b'\t', ..] => "PNM",
        _ => return "none of their signatures".to_owned(),
    };
    format!("a picture in {name}, which is not read: convert it to PNG or JPEG")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_recognized_by_ending() {
        for ending in ["png", "JPG", "jpeg", "webp", "GIF", "bmp", "HEIC", "tiff", "avif", "jxl"] {
            assert!(is_picture(Path::new(&format!("a.b.{ending}"))), "{ending}");
        }
        for ending in ["", "txt", "db", "json", "cr2", "svg", "ini"] {
            assert!(!is_picture(Path::new(&format!("png.{ending}"))), "{ending}");
        }
    }

    #[test]
    fn formats_that_are_not_read_are_named() {
        let named = |bytes: &[u8]| {
            assert_eq!(Format::of(bytes), None);
            let text = describe(bytes);
            let name =
                text.strip_prefix("a picture in ").and_then(|rest| rest.split_once(", which"));
            name.map_or(text.clone(), |(name, _)| name.to_owned())
        };
        for (bytes, name) in [
            (&b"BM6\0\0\0"[..], "BMP"),
            (b"II*\0\x08\0\0\0", "TIFF"),
            (b"MM\0*\0\0\0\x08", "TIFF"),
            (b"\0\0\0\x1cftypheic\0\0\0\0", "HEIC"),
            (b"\0\0\0\x18ftypmif1\0\0\0\0", "HEIC"),
            (b"\0\0\0\x1cftypavif\0\0\0\0", "AVIF"),
            (b"\xff\x0a\x00", "JPEG XL"),
            (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
            (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"),
            (b"P6\n2 2\n255\n", "PNM"),
            (b"", "an empty file"),
            (b"some notes", "none of their signatures"),
            (b"RIFF\0\0\0\0WAVE", "none of their signatures"),
        ] {
            assert_eq!(named(bytes), name);
        }
    }
}
