//! Shape of one image's activation. The batch is not part of it: a graph has none until it is compiled.

use std::fmt;

/// Height, width and channels; a vector is `1×1×channels`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Rows of the image.
    pub height: usize,
    /// Columns of the image.
    pub width: usize,
    /// Channels, the innermost dimension in memory.
    pub channels: usize,
}

impl Shape {
    /// An image.
    pub fn new(height: usize, width: usize, channels: usize) -> Self {
        Self { height, width, channels }
    }

    /// A vector.
    pub fn vector(channels: usize) -> Self {
        Self::new(1, 1, channels)
    }

    /// Numbers per image.
    pub fn len(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// Whether a dimension is zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Height times width.
    pub fn pixels(&self) -> usize {
        self.height * self.width
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}×{}×{}", self.height, self.width, self.channels)
    }
}
