//! Writes curves for TensorBoard (`events.out.tfevents.*`).
//!
//! ```text
//! file    = record*
//! record  = u64 length │ u32 mask(crc(length)) │ bytes │ u32 mask(crc(bytes))
//! bytes   = Event { 1 wall_time: double, 2 step: int64,
//!                   3 file_version: string | 5 summary: Summary | 7 session: Session }
//! Summary = { 1: Value* }    Value = { 1 tag: string, 2 simple_value: float }
//! Session = { 1 status: START = 1 }
//! ```
//!
//! crc is CRC-32C and mask(c) = rotate_right(c, 15) + 0xa282ead8, as in TensorFlow's records. The
//! five messages are encoded by hand; a protobuf compiler would be larger than this file. An old
//! file is never continued: a resumed run starts a new file, whose first event tells TensorBoard to
//! drop the steps that the run repeats.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::error::RunError;

const PREFIX: &str = "events.out.tfevents.";

/// A file of curves, open for appending.
#[derive(Debug)]
pub struct TensorBoard {
    file: File,
    path: PathBuf,
}

impl TensorBoard {
    /// Creates a file in `folder`. Its name contains the time and sorts after all existing files,
    /// since TensorBoard reads them in the order of names. `resumed_at` is the first step that a
    /// resumed run repeats.
    pub fn create(folder: &Path, resumed_at: Option<i64>) -> Result<Self, RunError> {
        let listed = fs::read_dir(folder).map_err(RunError::io("read", folder))?;
        let names = listed.flatten().map(|entry| entry.file_name());
        let times = names.filter_map(|name| {
            name.to_str()?.strip_prefix(PREFIX)?.split('.').next()?.parse().ok()
        });
        let last: Option<u64> = times.max();
        let mut time = (now() as u64).max(last.map_or(0, |last| last.saturating_add(1)));
        loop {
            let path = folder.join(format!("{PREFIX}{time:010}.swn"));
            match File::create_new(&path) {
                Ok(file) => {
                    let mut board = Self { file, path };
                    board.write(&event(None, &bytes_field(3, b"brain.Event:2")))?;
                    if let Some(step) = resumed_at {
                        board.write(&event(Some(step), &bytes_field(7, &[1 << 3, 1])))?;
                    }
                    return Ok(board);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => time += 1,
                Err(error) => return Err(RunError::io("create", &path)(error)),
            }
        }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one point to each of the named curves.
    pub fn scalars(&mut self, step: i64, values: &[(&str, f32)]) -> Result<(), RunError> {
        let mut summary = Vec::new();
        for (tag, value) in values {
            let mut point = bytes_field(1, tag.as_bytes());
            point.push(2 << 3 | 5);
            point.extend(value.to_le_bytes());
            summary.extend(bytes_field(1, &point));
        }
        self.write(&event(Some(step), &bytes_field(5, &summary)))
    }

    /// Writes a record in one piece. A crash leaves at most half a record, which TensorBoard skips.
    fn write(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        self.file.write_all(&record(bytes)).map_err(RunError::io("write", &self.path))
    }
}

/// Seconds since 1970 (UTC).
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Encodes an `Event` with its step and one more field.
fn event(step: Option<i64>, what: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1 << 3 | 1];
    bytes.extend(now().to_le_bytes());
    if let Some(step) = step {
        bytes.push(2 << 3);
        bytes.extend(varint(step as u64));
    }
    bytes.extend(what);
    bytes
}

/// Encodes a length-delimited protobuf field.
fn bytes_field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    field.extend(varint(bytes.len() as u64));
    field.extend(bytes);
    field
}

/// Encodes a protobuf variable-length integer.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Encodes a TensorFlow record.
fn record(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    let mut record = length.to_vec();
    record.extend(mask(crc32c(&length)).to_le_bytes());
    record.extend(bytes);
    record.extend(mask(crc32c(bytes)).to_le_bytes());
    record
}

/// Masks a checksum as TensorFlow's records do.
fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli's polynomial, bits reversed), one byte at a time.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let mut crc = byte as u32;
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
                bit += 1;
            }
            table[byte] = crc;
            byte += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |crc, byte| TABLE[((crc ^ *byte as u32) & 0xff) as usize] ^ crc >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::Folder;

    /// Values of RFC 3720, B.4, and the check value of the catalogue of CRCs.
    #[test]
    fn checksums_equal_published_values() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&std::array::from_fn::<u8, 32, _>(|i| i as u8)), 0x46dd_794e);
        assert_eq!(crc32c(&std::array::from_fn::<u8, 32, _>(|i| 31 - i as u8)), 0x113f_db5c);
        assert_eq!(mask(0), 0xa282_ead8);
    }

    /// A record decoded bit by bit, without the functions above.
    #[derive(Debug, Default, PartialEq)]
    struct Seen {
        wall_time: f64,
        step: i64,
        version: String,
        scalars: Vec<(String, f32)>,
        session: Option<u64>,
    }

    fn slow_crc(bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for bit in bytes.iter().flat_map(|byte| (0..8).map(move |bit| u32::from(byte >> bit & 1))) {
            let odd = (crc ^ bit) & 1 == 1;
            crc = crc >> 1 ^ if odd { 0x82f6_3b78 } else { 0 };
        }
        crc ^ u32::MAX
    }

    fn unmask(masked: u32) -> u32 {
        let rotated = masked.wrapping_sub(0xa282_ead8);
        rotated.rotate_left(15)
    }

    enum Field<'a> {
        Number(u64),
        Bytes(&'a [u8]),
    }

    fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
        fn number(bytes: &mut &[u8]) -> u64 {
            let length = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
            let (now, rest) = bytes.split_at(length);
            *bytes = rest;
            now.iter().rev().fold(0, |sum, byte| sum << 7 | u64::from(byte & 0x7f))
        }
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let key = number(&mut bytes);
            let length = match key & 7 {
                0 => {
                    found.push((key >> 3, Field::Number(number(&mut bytes))));
                    continue;
                }
                1 => 8,
                2 => number(&mut bytes) as usize,
                5 => 4,
                other => panic!("wire type {other}"),
            };
            let (now, rest) = bytes.split_at(length);
            bytes = rest;
            found.push((key >> 3, Field::Bytes(now)));
        }
        found
    }

    fn decode(file: &Path) -> Vec<Seen> {
        let bytes = fs::read(file).unwrap();
        let (mut rest, mut events) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            let (header, after) = rest.split_at(12);
            let length = u64::from_le_bytes(header[..8].try_into().unwrap()) as usize;
            assert_eq!(
                unmask(u32::from_le_bytes(header[8..].try_into().unwrap())),
                slow_crc(&header[..8])
            );
            let (body, after) = after.split_at(length);
            let (crc, after) = after.split_at(4);
            assert_eq!(unmask(u32::from_le_bytes(crc.try_into().unwrap())), slow_crc(body));
            rest = after;
            let mut seen = Seen::default();
            for field in fields(body) {
                match field {
                    (1, Field::Bytes(bytes)) => {
                        seen.wall_time = f64::from_le_bytes(bytes.try_into().unwrap())
                    }
                    (2, Field::Number(step)) => seen.step = step as i64,
                    (3, Field::Bytes(bytes)) => {
                        seen.version = String::from_utf8(bytes.to_vec()).unwrap()
                    }
                    (5, Field::Bytes(summary)) => {
                        for (_, value) in fields(summary) {
                            let Field::Bytes(value) = value else { panic!("a value is a message") };
                            let [(1, Field::Bytes(tag)), (2, Field::Bytes(number))] =
                                fields(value)[..]
                            else {
                                panic!("a tag and a number")
                            };
                            let tag = String::from_utf8(tag.to_vec()).unwrap();
                            seen.scalars
                                .push((tag, f32::from_le_bytes(number.try_into().unwrap())));
                        }
                    }
                    (7, Field::Bytes(session)) => {
                        let [(1, Field::Number(status))] = fields(session)[..] else {
                            panic!("a status")
                        };
                        seen.session = Some(status);
                    }
                    (number, _) => panic!("field {number}"),
                }
            }
            events.push(seen);
        }
        events
    }

    #[test]
    fn an_independent_reader_decodes_the_curves() {
        let folder = Folder::new("tensorboard");
        let mut board = TensorBoard::create(&folder.0, None).unwrap();
        board.scalars(0, &[("train/loss", 4.5), ("member 0/top-1 größer", 0.25)]).unwrap();
        // Every point is readable at once. Lengths and steps exceed one byte of a varint.
        assert_eq!(decode(board.path()).len(), 2);
        let long = "x".repeat(300);
        board.scalars(1 << 40, &[(&long, f32::NAN)]).unwrap();
        let events = decode(board.path());
        assert_eq!((events[0].version.as_str(), events[0].step), ("brain.Event:2", 0));
        assert!(events.iter().all(|event| event.wall_time > 1.7e9));
        let first = [("train/loss".to_owned(), 4.5), ("member 0/top-1 größer".to_owned(), 0.25)];
        assert_eq!((events[1].step, &events[1].scalars[..]), (0, &first[..]));
        assert_eq!((events[2].step, events[2].scalars[0].0.as_str()), (1 << 40, long.as_str()));
        assert!(events[2].scalars[0].1.is_nan());
    }

    #[test]
    fn a_resumed_run_starts_a_later_file_with_its_first_step() {
        let folder = Folder::new("tensorboard");
        let first = TensorBoard::create(&folder.0, None).unwrap();
        let second = TensorBoard::create(&folder.0, Some(391)).unwrap();
        let third = TensorBoard::create(&folder.0, Some(782)).unwrap();
        assert!(first.path() < second.path() && second.path() < third.path());
        let events = decode(second.path());
        assert_eq!((events[1].step, events[1].session), (391, Some(1)));
        assert!(decode(first.path()).iter().all(|event| event.session.is_none()));
    }
}
