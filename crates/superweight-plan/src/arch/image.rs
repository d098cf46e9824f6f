//! The shape of images.

use serde::{Deserialize, Serialize};

/// Channels, height and width of one input image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "[usize; 3]", into = "[usize; 3]")]
pub struct ImageShape {
    /// Colour channels.
    pub channels: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl ImageShape {
    /// CIFAR's 3×32×32.
    pub const CIFAR: Self = Self { channels: 3, height: 32, width: 32 };
    /// ImageNet's 3×224×224.
    pub const IMAGENET: Self = Self { channels: 3, height: 224, width: 224 };
}

impl From<[usize; 3]> for ImageShape {
    fn from([channels, height, width]: [usize; 3]) -> Self {
        Self { channels, height, width }
    }
}

impl From<ImageShape> for [usize; 3] {
    fn from(shape: ImageShape) -> Self {
        [shape.channels, shape.height, shape.width]
    }
}
