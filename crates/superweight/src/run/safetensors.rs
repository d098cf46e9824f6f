//! Reads and writes `.safetensors` files, which other tools open too.
//!
//! ```text
//! u64 length of header │ header │ numbers
//! header = {"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},…,"__metadata__":{…}}
//! ```
//!
//! Numbers are little-endian. Offsets count from the end of the header; the tensors cover the rest
//! of the file without holes or overlaps. The `safetensors` crate is not used: its errors name
//! neither file nor place, it needs the whole file in one buffer, and checkpoints are written in
//! pieces through [`Disk`]. The reader trusts nothing: allocations are bounded by the length of the
//! file, and the header by [`HEADER_LIMIT`].

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize as Derive, Serialize};

use super::disk::Disk;
use super::dtype::Dtype;
use super::error::RunError;
use super::tensors::{METADATA, Tensors, Values};

/// Largest header in bytes that is read; the reference implementation has the same limit.
pub const HEADER_LIMIT: u64 = 100_000_000;

/// Bytes that are converted at a time.
const PIECE: usize = 1 << 20;

/// Header entry of a tensor.
#[derive(Serialize, Derive)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// Writes a file atomically: under a temporary name, flushed, then renamed.
pub fn save(disk: &Disk, path: &Path, tensors: &Tensors) -> Result<(), RunError> {
    let temporary = path.with_extension("safetensors.tmp");
    let written = disk.create_file(&temporary).and_then(|mut file| {
        write(&mut file, tensors)?;
        file.sync()?;
        disk.rename(&temporary, path)?;
        disk.sync_parent(path)
    });
    if written.is_err() {
        // The first failure is the one to report.
        let _ = disk.remove_file(&temporary);
    }
    written.map_err(RunError::io("write", path))
}

/// Reads and validates a file.
pub fn load(path: &Path) -> Result<Tensors, RunError> {
    let (file, length) = open(path)?;
    read(path, file, length)
}

/// Returns the bytes of the file that [`save`] would write.
pub fn to_bytes(tensors: &Tensors) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    write(&mut bytes, tensors)?;
    Ok(bytes)
}

/// Reads and validates a file in memory; errors name it `path`.
pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Tensors, RunError> {
    read(path, bytes, bytes.len() as u64)
}

/// Opens a file for reading, with its length in bytes.
pub(super) fn open(path: &Path) -> Result<(File, u64), RunError> {
    let file = File::open(path).map_err(RunError::io("read", path))?;
    let length = file.metadata().map_err(RunError::io("read", path))?.len();
    Ok((file, length))
}

/// Writes header and tensors. Tensors with the widest elements come first, so that each is aligned;
/// tensors of one width are in the order of their names.
pub(super) fn write(to: &mut impl Write, tensors: &Tensors) -> io::Result<()> {
    let mut order: Vec<_> = tensors.iter().collect();
    order.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.values().dtype().bytes()));
    let mut header = serde_json::Map::new();
    if !tensors.metadata.is_empty() {
        header.insert(METADATA.to_owned(), serde_json::to_value(&tensors.metadata)?);
    }
    let mut end = 0;
    for (name, tensor) in &order {
        let begin = end;
        end += (tensor.values().len() * tensor.values().dtype().bytes()) as u64;
        let shape = tensor.shape().iter().map(|&side| side as u64).collect();
        let dtype = tensor.values().dtype().name().to_owned();
        let entry = Entry { dtype, shape, data_offsets: [begin, end] };
        header.insert((*name).to_owned(), serde_json::to_value(entry)?);
    }
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    if header.len() as u64 > HEADER_LIMIT {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the tensor names need a larger header than the format allows",
        ));
    }
    to.write_all(&[&(header.len() as u64).to_le_bytes()[..], &header].concat())?;
    order.into_iter().try_for_each(|(_, tensor)| write_values(to, tensor.values()))
}

fn write_values(to: &mut impl Write, values: &Values) -> io::Result<()> {
    fn pieces<T: Copy, const N: usize>(
        to: &mut impl Write,
        values: &[T],
        bytes: impl Fn(T) -> [u8; N],
    ) -> io::Result<()> {
        let mut piece = Vec::with_capacity(PIECE.min(values.len() * N));
        values.chunks(PIECE / N).try_for_each(|chunk| {
            piece.clear();
            piece.extend(chunk.iter().flat_map(|&value| bytes(value)));
            to.write_all(&piece)
        })
    }
    match values {
        Values::F32(values) => pieces(to, values, f32::to_le_bytes),
        Values::F64(values) => pieces(to, values, f64::to_le_bytes),
        Values::U8(values) => pieces(to, values, u8::to_le_bytes),
        Values::U32(values) => pieces(to, values, u32::to_le_bytes),
        Values::I64(values) => pieces(to, values, i64::to_le_bytes),
    }
}

/// Reads and validates a file of `length` bytes; errors name it `path`.
pub(super) fn read(path: &Path, mut from: impl Read, length: u64) -> Result<Tensors, RunError> {
    let malformed = |offset, what| RunError::Malformed { file: path.to_owned(), offset, what };
    let failed = |error: io::Error, offset| match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            malformed(offset, "the file ended while it was read".to_owned())
        }
        _ => RunError::io("read", path)(error),
    };
    let mut size = [0; 8];
    if length < 8 {
        return Err(malformed(0, format!("{length} bytes; the length of the header takes 8")));
    }
    from.read_exact(&mut size).map_err(|error| failed(error, 0))?;
    let size = u64::from_le_bytes(size);
    if size > HEADER_LIMIT {
        return Err(malformed(0, format!("a header of {size} bytes; the limit is {HEADER_LIMIT}")));
    }
    if size > length - 8 {
        return Err(malformed(
            0,
            format!("a header of {size} bytes in a file of {length}: truncated"),
        ));
    }
    let mut header = vec![0; usize::try_from(size).expect("a header is below its limit")];
    from.read_exact(&mut header).map_err(|error| failed(error, 8))?;
    let header: Header = serde_json::from_slice(&header).map_err(|error| {
        let lines =
            header.split_inclusive(|&byte| byte == b'\n').take(error.line().saturating_sub(1));
        let offset = 8 + lines.map(<[u8]>::len).sum::<usize>() + error.column().saturating_sub(1);
        malformed(offset as u64, format!("header: {error}"))
    })?;

    let data = 8 + size;
    let mut tensors = Tensors::default();
    tensors.metadata = header.metadata;
    let layout =
        check(header.entries, data, length - data).map_err(|Bad { tensor, offset, what }| {
            let tensor = tensor.chars().take(100).collect();
            RunError::Tensor { file: path.to_owned(), tensor, offset, what }
        })?;
    let covered = layout.last().map_or(0, |place| place.end);
    if covered != length - data {
        let what = format!("{} bytes that belong to no tensor", length - data - covered);
        return Err(malformed(data + covered, what));
    }
    for place in layout {
        let values = read_values(&mut from, place.dtype, place.count);
        let values = values.map_err(|error| failed(error, data + place.begin))?;
        tensors.insert_read(place.name, place.shape, values);
    }
    Ok(tensors)
}

/// What is wrong with one tensor.
struct Bad {
    tensor: String,
    offset: u64,
    what: String,
}

/// Where the data of a validated tensor are, as offsets after the header.
struct Place {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    count: usize,
    begin: u64,
    end: u64,
}

/// Validates the header entries and returns them in the order of their data: each lies inside the
/// file, has the size of its shape, and begins where the one before ends.
fn check(entries: BTreeMap<String, Entry>, data: u64, length: u64) -> Result<Vec<Place>, Bad> {
    let mut entries: Vec<_> = entries.into_iter().collect();
    entries.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut expected = 0;
    let mut places = Vec::with_capacity(entries.len());
    for (name, Entry { dtype, shape, data_offsets: [begin, end] }) in entries {
        let bad = |what| Bad { tensor: name.clone(), offset: data.saturating_add(begin), what };
        let known = Dtype::ALL.into_iter().find(|known| known.name() == dtype);
        let dtype = known.ok_or_else(|| {
            let dtype: String = dtype.chars().take(20).collect();
            bad(format!(
                "element type '{dtype}'; this program reads {}",
                Dtype::ALL.map(Dtype::name).join(", ")
            ))
        })?;
        if begin > end || end > length {
            return Err(bad(format!("bytes {begin} to {end} of {length}")));
        }
        let count = shape.iter().try_fold(1u64, |product, &side| product.checked_mul(side));
        let bytes = count.and_then(|count| count.checked_mul(dtype.bytes() as u64));
        if bytes != Some(end - begin) {
            return Err(bad(format!("{} bytes for {dtype} of shape {shape:?}", end - begin)));
        }
        match begin.cmp(&expected) {
            std::cmp::Ordering::Less => {
                return Err(bad(format!("overlaps the tensor that ends at {expected}")));
            }
            std::cmp::Ordering::Greater => {
                return Err(bad(format!("leaves a gap after {expected}")));
            }
            std::cmp::Ordering::Equal => expected = end,
        }
        let whole = |number: u64| {
            usize::try_from(number).map_err(|_| bad("more than memory has addresses".to_owned()))
        };
        let shape = shape.into_iter().map(whole).collect::<Result<Vec<_>, _>>()?;
        let count = whole((end - begin) / dtype.bytes() as u64)?;
        places.push(Place { name, dtype, shape, count, begin, end });
    }
    Ok(places)
}

fn read_values(from: &mut impl Read, dtype: Dtype, count: usize) -> io::Result<Values> {
    fn pieces<T, const N: usize>(
        from: &mut impl Read,
        count: usize,
        number: impl Fn([u8; N]) -> T,
    ) -> io::Result<Vec<T>> {
        let mut values = Vec::new();
        values.try_reserve_exact(count)?;
        let mut piece = vec![0; (count * N).min(PIECE / N * N)];
        while values.len() < count {
            let bytes = ((count - values.len()) * N).min(piece.len());
            from.read_exact(&mut piece[..bytes])?;
            values.extend(piece[..bytes].as_chunks::<N>().0.iter().map(|&bytes| number(bytes)));
        }
        Ok(values)
    }
    Ok(match dtype {
        Dtype::F32 => Values::F32(pieces(from, count, f32::from_le_bytes)?),
        Dtype::F64 => Values::F64(pieces(from, count, f64::from_le_bytes)?),
        Dtype::U8 => Values::U8(pieces(from, count, u8::from_le_bytes)?),
        Dtype::U32 => Values::U32(pieces(from, count, u32::from_le_bytes)?),
        Dtype::I64 => Values::I64(pieces(from, count, i64::from_le_bytes)?),
    })
}

/// The header of a file. A repeated name is an error, which a plain map would hide.
struct Header {
    metadata: BTreeMap<String, String>,
    entries: BTreeMap<String, Entry>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Header;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tensors by name")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let (mut metadata, mut entries) = (None, BTreeMap::new());
                while let Some(name) = map.next_key::<String>()? {
                    let new = match name == METADATA {
                        true => metadata.replace(map.next_value()?).is_none(),
                        false => entries.insert(name, map.next_value()?).is_none(),
                    };
                    if !new {
                        return Err(A::Error::custom("the name appears twice"));
                    }
                }
                Ok(Header { metadata: metadata.unwrap_or_default(), entries })
            }
        }
        from.deserialize_map(Names)
    }
}

#[cfg(test)]
#[path = "safetensors_tests.rs"]
mod tests;
