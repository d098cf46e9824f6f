//! The full file of predictions: any bytes are logits that can be scored, or an error.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use superweight::model::{MAX_MEMBERS, Subset};
use superweight::evaluate::{Predictions, SetReport};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(predictions) = Predictions::from_bytes(Path::new("fuzz"), bytes) {
        predictions.to_classes();
        if predictions.voices() <= MAX_MEMBERS.min(4) {
            SetReport::new(&predictions, &Subset::every(predictions.voices()));
        }
    }
});
