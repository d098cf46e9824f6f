//! A data set: bytes `[image][row][column][channel]`, labels, names, means and deviations.
//!
//! Bytes, because CIFAR takes 184 MB as bytes and 737 as floats, and because a GPU keeps them so. They are in memory, but for packed
//! sets that would take most of it: those are looked at in their files. Opening checks sizes,
//! headers and labels; digests are the business of [`verify`](crate::data::sources::verify) and of fetching.

use std::ops::Range;
use std::sync::Arc;

use superweight_engine::{ImageSet, Pixels, Shape};
use superweight_plan::arch::ImageShape;

use super::augment;
use super::bytes::Bytes;
use super::images::{Images, Normalization, Split};
use super::sources::catalogue::Description;

/// A data set in memory.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// As it is typed.
    pub name: String,
    /// Of every image.
    pub shape: ImageShape,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// To learn from.
    pub train: Images,
    /// To be judged by.
    pub test: Images,
    /// Means and deviations of the training images.
    pub normalization: Normalization,
}

impl Dataset {
    /// What it is, apart from its images.
    pub fn description(&self) -> Description {
        Description {
            name: self.name.clone(),
            shape: self.shape,
            classes: self.classes.clone(),
            images: (self.train.len(), self.test.len()),
            normalization: self.normalization.clone(),
        }
    }

    /// Training or test images.
    pub fn part(&self, part: Split) -> &Images {
        match part {
            Split::Train => &self.train,
            Split::Test => &self.test,
        }
    }

    /// A part as devices take it in; the bytes are shared, not copied.
    pub fn image_set(self: &Arc<Self>, part: Split) -> ImageSet {
        let ImageShape { channels, height, width } = self.shape;
        ImageSet {
            shape: Shape::new(height, width, channels),
            pixels: Arc::new(PartOf { data: Arc::clone(self), part }),
            classes: self.part(part).labels.iter().map(|&class| class.into()).collect(),
            table: augment::table(&self.normalization),
        }
    }

    /// Bytes of images that stay in their files, where they do.
    pub fn on_disk(&self) -> Option<u64> {
        let parts = [&self.train.pixels, &self.test.pixels];
        let bytes = parts
            .iter()
            .filter(|pixels| !pixels.in_memory())
            .map(|pixels| pixels.len() as u64)
            .sum();
        (bytes > 0).then_some(bytes)
    }

    /// Numbers of one image.
    pub fn image_len(&self) -> usize {
        self.shape.channels * self.shape.height * self.shape.width
    }
}

/// The bytes of a part.
struct PartOf {
    data: Arc<Dataset>,
    part: Split,
}

impl PartOf {
    fn pixels(&self) -> &Bytes {
        &self.data.part(self.part).pixels
    }
}

impl Pixels for PartOf {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::{Folder, cifar_entry, idx_entry};

    #[test]
    fn cifar_and_idx_folders_are_read_whole() {
        for (fixture, label) in [(cifar_entry(), 2), (idx_entry(), 1)] {
            let folder = Folder::new("dataset-read");
            fixture.write(&folder.0);
            let data = Dataset::read(&fixture.entry, &folder.0).unwrap();
            assert_eq!((data.train.len(), data.test.len()), fixture.entry.images);
            assert_eq!(data.train.pixels.len(), data.train.len() * data.image_len());
            assert_eq!(data.train.labels[label], fixture.label(label), "{}", data.name);
            assert_eq!(data.part(Split::Test).image(1).len(), data.image_len());
        }
    }

    #[test]
    fn what_was_never_fetched_says_how() {
        let folder = Path::new("/nowhere");
        assert_eq!(
            Dataset::open("cifar-100", folder).unwrap_err().to_string(),
            "cifar-100 is not in /nowhere: 'swn data fetch cifar-100' downloads it, '--from PATH' takes files \
             already there"
        );
        assert_eq!(Dataset::open("fashion-mnist-10k", folder).unwrap().test.len(), 2000);
    }
}
