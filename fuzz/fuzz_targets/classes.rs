//! The small file of predictions.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = superweight::evaluate::Classes::from_bytes(Path::new("fuzz"), bytes);
});
