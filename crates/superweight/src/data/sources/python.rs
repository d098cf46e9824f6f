//! Converts CIFAR's Python layout to the binary one. Images and order are the same, so the digests
//! of the binary files verify both layouts, and only the binary one is stored.

use std::path::Path;

use super::pickle::{self, Value};
use crate::data::DataError;

/// Converts a pickled batch to a binary file. The labels are `labels` if `label_bytes` is 1, and
/// `coarse_labels` and `fine_labels` if it is 2.
pub fn to_binary(file: &Path, bytes: &[u8], label_bytes: usize) -> Result<Vec<u8>, DataError> {
    let Value::Dict(entries) = pickle::read(file, bytes)? else {
        return Err(DataError::malformed(file, 0, "a dictionary", "something else"));
    };
    let entry = |name: &str| {
        let named =
            |key: &Value| matches!(key, Value::Bytes(at) if &bytes[at.clone()] == name.as_bytes());
        let value = entries.iter().find(|(key, _)| named(key)).map(|(_, value)| value);
        value.ok_or_else(|| DataError::malformed(file, 0, format!("an entry '{name}'"), "none"))
    };
    let Value::Array(data) = entry("data")? else {
        return Err(DataError::malformed(file, 0, "an array in 'data'", "something else"));
    };
    let names: &[&str] =
        if label_bytes == 1 { &["labels"] } else { &["coarse_labels", "fine_labels"] };
    let labels = names.iter().map(|name| labels(file, name, entry(name)?, data.rows));
    let labels = labels.collect::<Result<Vec<_>, _>>()?;
    let pixels = &bytes[data.bytes.clone()];
    let mut records = Vec::with_capacity(data.rows * label_bytes + pixels.len());
    for row in 0..data.rows {
        records.extend(labels.iter().map(|labels| labels[row]));
        match data.by_column {
            true => {
                records.extend((0..data.columns).map(|column| pixels[column * data.rows + row]))
            }
            false => records.extend_from_slice(&pixels[row * data.columns..][..data.columns]),
        }
    }
    Ok(records)
}

/// Labels of a batch, which must be `count` numbers below 256.
fn labels(file: &Path, name: &str, value: &Value, count: usize) -> Result<Vec<u8>, DataError> {
    let expected = || format!("{count} numbers below 256 in '{name}'");
    let refuse = |found: String| DataError::malformed(file, 0, expected(), found);
    let Value::List(list) = value else { return Err(refuse("no list".to_owned())) };
    if list.len() != count {
        return Err(refuse(format!("{} entries", list.len())));
    }
    let label = |value: &Value| match value {
        &Value::Int(label) => u8::try_from(label).map_err(|_| refuse(label.to_string())),
        _ => Err(refuse("a string".to_owned())),
    };
    list.iter().map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::pickled;

    const PIXELS: [u8; 6] = [10, 11, 12, 13, 14, 15];

    #[test]
    fn records_have_labels_and_rows() {
        let ten = pickled(&[("labels", &[7, 8])], 2, 3, &PIXELS, 1);
        assert_eq!(to_binary(Path::new("b"), &ten, 1).unwrap(), [7, 10, 11, 12, 8, 13, 14, 15]);
        let hundred =
            pickled(&[("fine_labels", &[7, 8]), ("coarse_labels", &[1, 2])], 2, 3, &PIXELS, 1);
        assert_eq!(
            to_binary(Path::new("b"), &hundred, 2).unwrap(),
            [1, 7, 10, 11, 12, 2, 8, 13, 14, 15]
        );
    }

    /// Numpy marks Fortran order by a True (0x88) before the bytes.
    #[test]
    fn arrays_in_fortran_order_are_transposed() {
        let mut ten = pickled(&[("labels", &[7, 8])], 2, 3, &[10, 13, 11, 14, 12, 15], 1);
        let at = ten.windows(2).position(|pair| pair == [0x89, b'T']).unwrap();
        ten[at] = 0x88;
        assert_eq!(to_binary(Path::new("b"), &ten, 1).unwrap(), [7, 10, 11, 12, 8, 13, 14, 15]);
    }

    #[test]
    fn missing_and_invalid_entries_are_named_in_the_error() {
        let refused = |bytes: &[u8], label_bytes| {
            to_binary(Path::new("b"), bytes, label_bytes).unwrap_err().to_string()
        };
        let ten = pickled(&[("labels", &[7, 8])], 2, 3, &PIXELS, 1);
        assert_eq!(refused(&ten, 2), "b, byte 0: expected an entry 'coarse_labels', found none");
        let short = pickled(&[("labels", &[7])], 2, 3, &PIXELS, 1);
        assert_eq!(
            refused(&short, 1),
            "b, byte 0: expected 2 numbers below 256 in 'labels', found 1 entries"
        );
        let large = pickled(&[("labels", &[7, 256])], 2, 3, &PIXELS, 1);
        assert_eq!(
            refused(&large, 1),
            "b, byte 0: expected 2 numbers below 256 in 'labels', found 256"
        );
    }
}
