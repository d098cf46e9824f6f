//! Shape of one image's activation. The batch size is not part of it: a graph has none until it is
//! compiled.

use std::fmt;

/// Height, width and number of channels of an activation. A vector has the shape `1×1×channels`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Number of rows.
    pub height: usize,
    /// Number of columns.
    pub width: usize,
    /// Number of channels, the innermost dimension in memory.
    pub channels: usize,
}

impl Shape {
    /// Shape of an image.
    pub fn new(height: usize, width: usize, channels: usize) -> Self {
        Self { height, width, channels }
    }

    /// Shape of a vector.
    pub fn vector(channels: usize) -> Self {
        Self::new(1, 1, channels)
    }

    /// Number of elements per image.
    pub fn len(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// Returns true if any dimension is zero.
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
