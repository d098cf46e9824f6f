//! The cache of tuned convolutions: any bytes are records and a count of damaged lines.
#![no_main]

use libfuzzer_sys::fuzz_target;
use superweight::engine::cuda::parse_records;

fuzz_target!(|bytes: &[u8]| {
    let (records, damaged) = parse_records(bytes);
    let lines = String::from_utf8_lossy(bytes).lines().count();
    assert!(records.len() + damaged <= lines);
});
