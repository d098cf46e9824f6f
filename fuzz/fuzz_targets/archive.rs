//! Archives of data sets: tar, gzip, and CIFAR's python layout inside. The first byte chooses
//! the data set.
#![cfg_attr(feature = "libfuzzer", no_main)]

use superweight::data::fuzzing::{CIFAR, IDX, archive};

superweight_fuzz::target!(|bytes: &[u8]| {
    let Some((&which, tar)) = bytes.split_first() else { return };
    let entry = if which % 2 == 0 { &CIFAR } else { &IDX };
    if let Ok(data) = archive(entry, tar) {
        assert_eq!((data.train.len(), data.test.len()), entry.images);
    }
});
