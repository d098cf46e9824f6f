//! CIFAR's python files: any bytes are records of one or two labels and an image, or an error.
#![cfg_attr(feature = "libfuzzer", no_main)]

use superweight::data::fuzzing::pickle;

superweight_fuzz::target!(|bytes: &[u8]| {
    for label_bytes in [1, 2] {
        if let Ok(records) = pickle(bytes, label_bytes) {
            assert!(records.len() <= 2 * bytes.len(), "no more comes out than is in the file");
        }
    }
});
