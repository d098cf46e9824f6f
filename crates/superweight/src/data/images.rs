//! Images of one shape with their labels, the splits they belong to, and their normalization.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::bytes::Bytes;

/// Images of a data set that belong together, as its files divide them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Training images, which include the validation images.
    Train,
    /// Test images.
    Test,
}

/// Images that an evaluation reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvalSplit {
    /// The test images.
    Test,
    /// The training images that the recipe reserves for validation.
    Validation,
}

impl EvalSplit {
    /// Flag of `swn eval` and `swn anytime` that selects these images, with a space before it.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Test => "",
            Self::Validation => " --validation",
        }
    }

    /// Name in files and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Validation => "validation",
        }
    }
}

/// Images of one shape with their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Images {
    /// Pixels, `[image][row][column][channel]`.
    pub pixels: Bytes,
    /// Class of each image, below the number of classes.
    pub labels: Vec<u16>,
}

impl Images {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Pixels of one image.
    pub fn image(&self, index: usize) -> &[u8] {
        let size = self.pixels.len() / self.len();
        &self.pixels[index * size..][..size]
    }
}

/// Normalization of pixels: a byte v becomes (v − mean) / std, with constants per channel in 0–255.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalization {
    /// Mean of each channel over the training images.
    pub mean: Cow<'static, [f32]>,
    /// Standard deviation of each channel over the training images.
    pub std: Cow<'static, [f32]>,
}

impl Normalization {
    /// Normalization of a data set that is known at compile time.
    pub const fn fixed(mean: &'static [f32], std: &'static [f32]) -> Self {
        Self { mean: Cow::Borrowed(mean), std: Cow::Borrowed(std) }
    }
}
