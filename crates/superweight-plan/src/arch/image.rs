//! [`ImageShape`]: channels, height and width.

use serde::{Deserialize, Serialize};

/// Shape of one image or feature map: channels, height and width.
///
/// Written to files as a list, `[3, 32, 32]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "[usize; 3]", into = "[usize; 3]")]
pub struct ImageShape {
    /// Number of channels.
    pub channels: usize,
    /// Height in pixels.
    pub height: usize,
    /// Width in pixels.
    pub width: usize,
}

impl ImageShape {
    /// Shape of CIFAR images, 3×32×32.
    pub const CIFAR: Self = Self { channels: 3, height: 32, width: 32 };
    /// Usual shape of ImageNet images, 3×224×224.
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
