//! Byte storage of images, in memory or mapped from a file.

use std::ops::Range;

/// Byte storage of images, `[image][row][column][channel]`.
pub trait Pixels: Send + Sync {
    /// Bytes of all images.
    fn bytes(&self) -> &[u8];

    /// Returns true if all bytes are in memory. Otherwise devices do not keep the images, but
    /// receive each image when a batch uses it.
    fn in_memory(&self) -> bool {
        true
    }

    /// Hints that this range will be read soon.
    fn prefetch(&self, _: Range<usize>) {}
}

impl Pixels for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}
