//! Round trips of `.safetensors` files, files of other programs, and hostile files.

use super::*;
use crate::data::testing::Folder;
use crate::run::Tensor;

fn all_types() -> Tensors {
    let mut tensors = Tensors::default();
    tensors.metadata.insert("format".to_owned(), "pt".to_owned());
    tensors.insert("bytes", Tensor::new(&[3], vec![0u8, 7, 255]));
    tensors.insert(
        "floats",
        Tensor::new(&[2, 2], vec![1.5f32, -0.0, f32::INFINITY, f32::MIN_POSITIVE]),
    );
    tensors.insert("doubles", Tensor::new(&[], vec![std::f64::consts::PI]));
    tensors.insert("counts", Tensor::new(&[1, 2], vec![1u32, u32::MAX]));
    tensors.insert("whole", Tensor::new(&[2], vec![i64::MIN, 3]));
    tensors.insert("none", Tensor::new(&[0, 4], Vec::<f32>::new()));
    tensors
}

fn bytes_of(tensors: &Tensors) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, tensors).unwrap();
    bytes
}

fn parse(bytes: &[u8]) -> Result<Tensors, RunError> {
    read(Path::new("x.safetensors"), bytes, bytes.len() as u64)
}

fn file(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

#[test]
fn every_element_type_comes_back_bit_for_bit() {
    let folder = Folder::new("safetensors");
    let path = folder.0.join("all.safetensors");
    let mut tensors = all_types();
    save(&Disk::default(), &path, &tensors).unwrap();
    assert_eq!(load(&path).unwrap(), tensors);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
    // A tensor longer than one piece, and NaNs with payloads.
    let long: Vec<f32> = (0..300_000).map(|i| f32::from_bits(0x7fc0_0000 | i)).collect();
    tensors.insert("long", Tensor::new(&[300, 1000], long.clone()));
    let back = parse(&bytes_of(&tensors)).unwrap();
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(back.expect("long", &[300, 1000]).unwrap()), bits(&long));
}

/// `safetensors.numpy.save({"a": np.array([1.0, 2.0], np.float32), "b": np.array([[3]], np.int64)},
/// {"k": "v"})` of Python's safetensors 0.8.0, byte for byte. This program writes the same numbers,
/// its names sorted.
#[test]
fn reads_what_python_writes() {
    let header = concat!(
        r#"{"__metadata__":{"k":"v"},"b":{"dtype":"I64","shape":[1,1],"data_offsets":[0,8]},"#,
        r#""a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}"#
    );
    let header = format!("{header:<width$}", width = header.len().next_multiple_of(8));
    let data = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40];
    let tensors = parse(&file(&header, &data)).unwrap();
    assert_eq!(tensors.expect::<f32>("a", &[2]).unwrap(), [1.0, 2.0]);
    assert_eq!(tensors.expect::<i64>("b", &[1, 1]).unwrap(), [3]);
    assert_eq!(tensors.metadata["k"], "v");
    assert!(bytes_of(&tensors).ends_with(&data));
}

#[test]
fn data_are_aligned() {
    let bytes = bytes_of(&all_types());
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert_eq!(header % 8, 0);
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header as usize]).unwrap();
    assert_eq!(header["doubles"]["data_offsets"].as_array().unwrap()[0].as_u64().unwrap() % 8, 0);
    assert_eq!(header["floats"]["data_offsets"].as_array().unwrap()[0].as_u64().unwrap() % 4, 0);
}

#[test]
fn hostile_files_are_errors_with_tensor_and_place() {
    let entry = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#"{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
    };
    let two = |a: &str, b: &str| {
        format!(
            r#"{{"a":{{"dtype":"U8","shape":[2],"data_offsets":{a}}},"b":{{"dtype":"U8","shape":[2],"data_offsets":{b}}}}}"#
        )
    };
    let huge = "18446744073709551615";
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "at byte 0: 0 bytes; the length of the header takes 8"),
        (vec![1; 7], "at byte 0: 7 bytes"),
        (u64::MAX.to_le_bytes().to_vec(), "the limit is 100000000"),
        (99_999_999u64.to_le_bytes().to_vec(), "in a file of 8: truncated"),
        (file("{", b""), "header: EOF"),
        (file("[]", b""), "at byte 8: header: invalid type"),
        (file(&"[".repeat(100_000), b""), "header: "),
        (file(&format!(r#"{{"a":{}"#, "[".repeat(100_000)), b""), "header: "),
        (file(&entry("F32", "[1]", "[0,4]"), &[0; 3]), "tensor 'a': bytes 0 to 4 of 3"),
        (file(&entry("F32", "[1]", "[4,0]"), &[0; 4]), "tensor 'a': bytes 4 to 0 of 4"),
        (file(&entry("F32", "[2]", "[0,4]"), &[0; 4]), "tensor 'a': 4 bytes for F32 of shape [2]"),
        (file(&entry("F32", "[1]", "[0,4]"), &[0; 5]), "1 bytes that belong to no tensor"),
        (
            file(&entry("BF16", "[2]", "[0,4]"), &[0; 4]),
            "element type 'BF16'; this program reads F32, F64, U8, U32, I64",
        ),
        (
            file(&entry("U8", &format!("[{huge},{huge}]"), "[0,1]"), &[0]),
            "1 bytes for U8 of shape [18446744073709551615, 18446744073709551615]",
        ),
        (file(&entry("F64", &format!("[{huge}]"), &format!("[0,{huge}]")), &[0]), "of 1"),
        (file(&entry("U8", "[-1]", "[0,1]"), &[0]), "header: invalid value"),
        (file(&entry("U8", "[0.5]", "[0,1]"), &[0]), "header: invalid type"),
        (file(&two("[0,2]", "[1,3]"), &[0; 3]), "tensor 'b': overlaps the tensor that ends at 2"),
        (file(&two("[0,2]", "[3,5]"), &[0; 5]), "tensor 'b': leaves a gap after 2"),
        (file(&two("[0,2]", "[2,4]").replace("\"b\"", "\"a\""), &[0; 4]), "the name appears twice"),
        (file(r#"{"__metadata__":{"k":1}}"#, b""), "header: invalid type"),
        (file(r#"{"__metadata__":{},"__metadata__":{}}"#, b""), "the name appears twice"),
    ];
    for (bytes, expected) in cases {
        let error = parse(&bytes).unwrap_err().to_string();
        assert!(error.starts_with("x.safetensors at byte ") && error.contains(expected), "{error}");
    }
    // Data begin at 8 + length of the header + offset of the tensor.
    let header = two("[0,2]", "[1,3]");
    let error = parse(&file(&header, &[0; 3])).unwrap_err().to_string();
    assert!(error.contains(&format!("at byte {}, tensor 'b'", 8 + header.len() + 1)), "{error}");
}

#[test]
fn no_truncation_and_no_flipped_bit_panics() {
    let bytes = bytes_of(&all_types());
    for length in 0..bytes.len() {
        assert!(parse(&bytes[..length]).is_err(), "{length}");
        // A file that shrinks while it is read.
        assert!(read(Path::new("x"), &bytes[..length], bytes.len() as u64).is_err(), "{length}");
    }
    for place in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[place / 8] ^= 1 << (place % 8);
        let _ = parse(&flipped);
    }
}

#[test]
fn a_save_that_fails_leaves_the_old_file_and_no_other() {
    let folder = Folder::new("safetensors");
    let path = folder.0.join("statistics.safetensors");
    save(&Disk::default(), &path, &Tensors::default()).unwrap();
    for failing in 0.. {
        let count = std::sync::atomic::AtomicUsize::new(0);
        let disk = Disk::with_hook(move |_| {
            match count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == failing {
                true => Err(io::Error::other("bad sector")),
                false => Ok(()),
            }
        });
        let done = save(&disk, &path, &all_types());
        let found = load(&path).unwrap();
        assert!(done.is_err() || failing > 5 && found == all_types());
        assert!(found == Tensors::default() || found == all_types());
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
        match done {
            Ok(()) => break,
            Err(error) => {
                assert!(
                    error.to_string().ends_with("statistics.safetensors: bad sector"),
                    "{error}"
                )
            }
        }
    }
}
