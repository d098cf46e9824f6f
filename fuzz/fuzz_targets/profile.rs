//! Profiles of `swn anytime`.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = superweight::anytime::Profile::from_json(Path::new("fuzz"), text);
    }
});
