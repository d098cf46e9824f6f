//! The small file of predictions: any bytes are classes or an error, and every row has its share of right ones.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use superweight::evaluate::Classes;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(classes) = Classes::from_bytes(Path::new("fuzz"), bytes) {
        for subset in classes.rows.keys() {
            assert!(classes.top1(*subset).is_some());
        }
    }
});
