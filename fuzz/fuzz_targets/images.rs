//! The binary layouts of data sets. First byte: CIFAR or idx; then, for each file but the last,
//! a byte with its length.
#![cfg_attr(feature = "libfuzzer", no_main)]

use superweight::data::fuzzing::{CIFAR, IDX, files};

superweight_fuzz::target!(|bytes: &[u8]| {
    let Some((&which, mut rest)) = bytes.split_first() else { return };
    let entry = if which % 2 == 0 { &CIFAR } else { &IDX };
    let mut parts = vec![];
    for _ in 1..entry.files.len() {
        let Some((&length, after)) = rest.split_first() else { return };
        let (part, after) = after.split_at(after.len().min(length.into()));
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    if let Ok(data) = files(entry, &parts) {
        for part in [&data.train, &data.test] {
            assert_eq!(part.pixels.len(), part.len() * data.image_len());
            assert!(part.labels.iter().all(|&label| usize::from(label) < data.classes.len()));
        }
    }
});
