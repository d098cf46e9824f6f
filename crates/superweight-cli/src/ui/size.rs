//! Sizes of files and memory as text.

/// Megabytes, or gigabytes from 10 GB on.
pub fn megabytes(bytes: u64) -> String {
    match bytes as f64 {
        bytes @ 1e10.. => format!("{:.1} GB", bytes / 1e9),
        bytes => format!("{:.1} MB", bytes / 1e6),
    }
}
