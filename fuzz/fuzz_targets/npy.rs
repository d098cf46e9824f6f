//! Headers of numpy files.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = superweight::data::NpyHeader::parse(Path::new("fuzz"), bytes);
});
