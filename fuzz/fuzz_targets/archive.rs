//! Archives of data sets (tar, gzip, CIFAR's python layout inside). First byte: of which set.
#![no_main]

use libfuzzer_sys::fuzz_target;
use superweight::data::fuzzing::{CIFAR, IDX, archive};

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, tar)) = bytes.split_first() else { return };
    let entry = if which % 2 == 0 { &CIFAR } else { &IDX };
    if let Ok(data) = archive(entry, tar) {
        assert_eq!((data.train.len(), data.test.len()), entry.images);
    }
});
