//! Where the bytes of images come from.

use std::ops::Range;

/// Bytes of images, `[image][row][column][channel]`.
pub trait Pixels: Send + Sync {
    /// All of them.
    fn bytes(&self) -> &[u8];

    /// Whether all of them are in memory. What is not is kept by no device: images are sent when they are drawn.
    fn in_memory(&self) -> bool {
        true
    }

    /// Says that somebody will look there soon.
    fn prefetch(&self, _: Range<usize>) {}
}

impl Pixels for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}
