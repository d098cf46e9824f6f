//! A data set: training and test images as bytes, labels, class names and normalization.
//!
//! Pixels are bytes, since CIFAR takes 184 MB as bytes and 737 MB as floats, and a GPU stores bytes
//! too. They are in memory, except for packed data sets that would take most of it: those stay in
//! their files. Opening checks sizes, headers and labels; [`verify`](crate::data::verify) and
//! fetching compare digests.

use std::ops::Range;
use std::sync::Arc;

use superweight_engine::{ImageSet, Pixels, Shape};
use superweight_plan::arch::ImageShape;

use super::augment;
use super::bytes::Bytes;
use super::images::{Images, Normalization, Split};
use super::sources::catalog::Description;

/// A data set that was read.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Name on the command line and in recipes.
    pub name: String,
    /// Shape of every image.
    pub shape: ImageShape,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// Training images, which include the validation images.
    pub train: Images,
    /// Test images.
    pub test: Images,
    /// Normalization that the training images give.
    pub normalization: Normalization,
}

impl Dataset {
    /// Everything about the data set but its images.
    pub fn description(&self) -> Description {
        Description {
            name: self.name.clone(),
            shape: self.shape,
            classes: self.classes.clone(),
            images: (self.train.len(), self.test.len()),
            normalization: self.normalization.clone(),
        }
    }

    /// Images of a split.
    pub fn split(&self, split: Split) -> &Images {
        match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        }
    }

    /// Images of a split in the form that devices load; the bytes are shared, not copied.
    pub fn image_set(self: &Arc<Self>, split: Split) -> ImageSet {
        let ImageShape { channels, height, width } = self.shape;
        ImageSet {
            shape: Shape::new(height, width, channels),
            pixels: Arc::new(SplitPixels { data: Arc::clone(self), split }),
            classes: self.split(split).labels.iter().map(|&class| class.into()).collect(),
            table: augment::table(&self.normalization),
        }
    }

    /// Number of bytes of images that stay in their files; `None` if all are in memory.
    pub fn on_disk(&self) -> Option<u64> {
        let splits = [&self.train.pixels, &self.test.pixels];
        let bytes = splits
            .iter()
            .filter(|pixels| !pixels.in_memory())
            .map(|pixels| pixels.len() as u64)
            .sum();
        (bytes > 0).then_some(bytes)
    }

    /// Number of values of one image.
    pub fn image_len(&self) -> usize {
        self.shape.channels * self.shape.height * self.shape.width
    }
}

/// The pixels of a split of a shared data set.
struct SplitPixels {
    data: Arc<Dataset>,
    split: Split,
}

impl SplitPixels {
    fn pixels(&self) -> &Bytes {
        &self.data.split(self.split).pixels
    }
}

impl Pixels for SplitPixels {
    fn bytes(&self) -> &[u8] {
        self.pixels()
    }

    fn in_memory(&self) -> bool {
        self.pixels().in_memory()
    }

    fn prefetch(&self, range: Range<usize>) {
        self.pixels().prefetch(range);
    }
}
