//! The full file of predictions: any bytes are logits that can be scored, or an error.
#![cfg_attr(feature = "libfuzzer", no_main)]

use std::path::Path;

use superweight::evaluate::{Predictions, SetReport};
use superweight::model::{MAX_MEMBERS, Subset};

superweight_fuzz::target!(|bytes: &[u8]| {
    if let Ok(predictions) = Predictions::from_bytes(Path::new("fuzz"), bytes) {
        predictions.to_classes();
        if predictions.outputs() <= MAX_MEMBERS.min(4) {
            SetReport::new(&predictions, &Subset::every(predictions.outputs()));
        }
    }
});
