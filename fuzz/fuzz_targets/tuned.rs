//! The cache of tuned convolutions: any bytes are records and a count of damaged lines.
#![cfg_attr(feature = "libfuzzer", no_main)]

use superweight::engine::cuda::parse_records;

superweight_fuzz::target!(|bytes: &[u8]| {
    let (records, damaged) = parse_records(bytes);
    let lines = String::from_utf8_lossy(bytes).lines().count();
    assert!(records.len() + damaged <= lines);
});
