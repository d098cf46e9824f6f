//! Checkpoints and logits: any bytes are tensors or an error; what is read is written back as
//! it was.
#![cfg_attr(feature = "libfuzzer", no_main)]

use std::path::Path;

superweight_fuzz::target!(|bytes: &[u8]| {
    if let Ok(tensors) = superweight::run::safetensors::from_bytes(Path::new("fuzz"), bytes) {
        let again = superweight::run::safetensors::to_bytes(&tensors)
            .expect("what was read can be written");
        let back =
            superweight::run::safetensors::from_bytes(Path::new("fuzz"), &again).expect("and read");
        assert_eq!(tensors.len(), back.len());
    }
});
