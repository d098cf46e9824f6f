//! The small file of predictions: any bytes are classes or an error, and every row has its
//! share of correct ones. Input that is not packed is packed here, since no fuzzer gets past
//! gzip's checksum.
#![cfg_attr(feature = "libfuzzer", no_main)]

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use superweight::evaluate::Classes;

superweight_fuzz::target!(|bytes: &[u8]| {
    let packed = match bytes.starts_with(&[0x1f, 0x8b]) {
        true => bytes.to_vec(),
        false => {
            let mut packer = GzEncoder::new(vec![], Compression::fast());
            packer.write_all(bytes).expect("memory takes everything");
            packer.finish().expect("memory takes everything")
        }
    };
    if let Ok(classes) = Classes::from_bytes(Path::new("fuzz"), &packed) {
        for subset in classes.rows.keys() {
            assert!(classes.top1(*subset).is_some());
        }
    }
});
