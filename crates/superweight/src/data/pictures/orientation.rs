//! Turns photographs upright: cameras store the picture as the sensor lay, and state in the EXIF
//! data (tag 0x0112) how to turn it.
//!
//! Forty lines instead of a crate: only one tag of the first directory is read.

use super::picture::Picture;

/// EXIF tag of the orientation.
const TAG: u16 = 0x0112;

/// Orientation in EXIF data: 1 (upright) to 8; 1 if the data are damaged or lack the tag.
pub(super) fn orientation(exif: &[u8]) -> u16 {
    read(exif).filter(|orientation| (1..=8).contains(orientation)).unwrap_or(1)
}

fn read(exif: &[u8]) -> Option<u16> {
    let little = match exif.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes = exif.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let [low, high] = if little { [4, 6] } else { [6, 4] };
    let directory = usize::from(short(low)?) | usize::from(short(high)?) << 16;
    let entries = (0..usize::from(short(directory)?)).map(|i| directory + 2 + 12 * i);
    let at = entries.take_while(|&at| at < exif.len()).find(|&at| short(at) == Some(TAG))?;
    // Entry: tag, type, count, value. A value of two bytes is at the start of its four bytes.
    match (short(at + 2)?, little) {
        (3, _) | (4, true) => short(at + 8),
        (4, false) => short(at + 10),
        _ => None,
    }
}

/// Turns a picture of this orientation upright.
pub(super) fn upright(picture: Picture, orientation: u16) -> Picture {
    let Picture { height: h, width: w, rgb } = &picture;
    let (height, width) = if orientation < 5 { (*h, *w) } else { (*w, *h) };
    let source = |y: usize, x: usize| match orientation {
        2 => (y, w - 1 - x),
        3 => (h - 1 - y, w - 1 - x),
        4 => (h - 1 - y, x),
        5 => (x, y),
        6 => (h - 1 - x, y),
        7 => (h - 1 - x, w - 1 - y),
        8 => (x, w - 1 - y),
        _ => (y, x),
    };
    if orientation < 2 {
        return picture;
    }
    let mut turned = Vec::with_capacity(rgb.len());
    for y in 0..height {
        for x in 0..width {
            let (row, column) = source(y, x);
            turned.extend_from_slice(&rgb[(row * w + column) * 3..][..3]);
        }
    }
    Picture { height, width, rgb: turned }
}

/// EXIF data with a directory of two tags.
#[cfg(test)]
pub(super) fn exif_of(little: bool, orientation: u16) -> Vec<u8> {
    let short = |v: u16| if little { v.to_le_bytes() } else { v.to_be_bytes() };
    let long = |v: u32| if little { v.to_le_bytes() } else { v.to_be_bytes() };
    let start: &[u8] = if little { b"II*\0" } else { b"MM\0*" };
    let entry =
        |tag, value| [&short(tag)[..], &short(3), &long(1), &short(value), &[0, 0]].concat();
    [start, &long(10), &[7, 7], &short(2), &entry(0x0100, 3), &entry(TAG, orientation), &long(0)]
        .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_is_found_in_either_byte_order_and_damage_means_upright() {
        for little in [true, false] {
            for n in 1..=8 {
                assert_eq!(orientation(&exif_of(little, n)), n);
            }
            let whole = exif_of(little, 6);
            for length in 0..whole.len() - 8 {
                assert_eq!(orientation(&whole[..length]), 1, "{length}");
            }
            for n in [0, 9, 65535] {
                assert_eq!(orientation(&exif_of(little, n)), 1);
            }
            let mut long = whole.clone();
            let at = 26; // the type of the second entry
            assert_eq!(long.splice(at..at + 2, if little { [4, 0] } else { [0, 4] }).count(), 2);
            if !little {
                long.splice(at + 6..at + 10, [0, 0, 0, 6]);
            }
            assert_eq!(orientation(&long), 6);
            let mut far = whole.clone();
            far[4..8].fill(0xff);
            assert_eq!(orientation(&far), 1);
        }
    }

    /// `ImageOps.exif_transpose` of Pillow 13 for an image of 2 rows of 3 with values 0 to 5.
    #[test]
    fn pictures_are_turned_as_in_pillow() {
        let picture = Picture { height: 2, width: 3, rgb: (0..6).flat_map(|v| [v; 3]).collect() };
        for (n, width, values) in [
            (1, 3, [0, 1, 2, 3, 4, 5]),
            (2, 3, [2, 1, 0, 5, 4, 3]),
            (3, 3, [5, 4, 3, 2, 1, 0]),
            (4, 3, [3, 4, 5, 0, 1, 2]),
            (5, 2, [0, 3, 1, 4, 2, 5]),
            (6, 2, [3, 0, 4, 1, 5, 2]),
            (7, 2, [5, 2, 4, 1, 3, 0]),
            (8, 2, [2, 5, 1, 4, 0, 3]),
        ] {
            let turned = upright(picture.clone(), n);
            assert_eq!((turned.width, turned.height), (width, 6 / width), "{n}");
            assert_eq!(turned.rgb.iter().copied().step_by(3).collect::<Vec<u8>>(), values, "{n}");
        }
    }
}
