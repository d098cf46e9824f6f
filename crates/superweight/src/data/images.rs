//! Images of one shape with their labels, and how pixels are normalized.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::bytes::Bytes;

/// What a model may learn from, and what it is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Training images; what is held out is a part of them.
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

/// Images of one shape and their labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Images {
    /// `[image][row][column][channel]`.
    pub pixels: Bytes,
    /// Below the number of classes.
    pub labels: Vec<u16>,
}

impl Images {
    /// How many.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The bytes of one image.
    pub fn image(&self, index: usize) -> &[u8] {
        let size = self.pixels.len() / self.len();
        &self.pixels[index * size..][..size]
    }
}

/// Per channel, in 0–255: a pixel v becomes (v − mean) / deviation.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalization {
    /// Over all training images.
    pub mean: Cow<'static, [f32]>,
    /// Over all training images.
    pub deviation: Cow<'static, [f32]>,
}

impl Normalization {
    /// Of a set that is known when this is compiled.
    pub const fn fixed(mean: &'static [f32], deviation: &'static [f32]) -> Self {
        Self { mean: Cow::Borrowed(mean), deviation: Cow::Borrowed(deviation) }
    }
}

