//! PNG, JPEG, WebP and GIF files: any bytes are a picture of bounded size or an error, and every
//! picture fits a network.
#![cfg_attr(feature = "libfuzzer", no_main)]

use std::path::Path;

superweight_fuzz::target!(|bytes: &[u8]| {
    if let Ok(picture) = superweight::data::Picture::decode(Path::new("fuzz"), bytes) {
        if picture.rgb.len() < 1 << 20 {
            assert_eq!(picture.fit(superweight::plan::arch::ImageShape::CIFAR).len(), 3072);
        }
    }
});
