//! Numpy files, as corrupted images (rows of 2×2×3) and as labels: any bytes are the requested
//! rows or an error.
#![cfg_attr(feature = "libfuzzer", no_main)]

use std::io::Cursor;
use std::path::Path;

use superweight::data::npy_rows_of;

superweight_fuzz::target!(|bytes: &[u8]| {
    for row in [&[2, 2, 3][..], &[]] {
        let size: usize = row.iter().product();
        for (from, count) in [(0, 1), (1, 3), (0, usize::MAX), (usize::MAX, 2)] {
            if let Ok(rows) = npy_rows_of(Path::new("fuzz"), Cursor::new(bytes), row, from, count) {
                assert_eq!(rows.len(), count * size);
            }
        }
    }
});
