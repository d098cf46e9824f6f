//! Data augmentation: draws how each training image is resized, shifted, flipped and cut out.
//!
//! - *stretch*: a crop of random area (uniform from the least fraction to 1) and random aspect
//!   ratio (from 3:4 to 4:3, uniform in the logarithm) at a random place is resized to the size of
//!   the image, as torchvision's `RandomResizedCrop` does: bilinearly, rounded to bytes. A crop
//!   that exceeds the image is drawn again, at most nine times; then it is the center;
//! - *flip*: half of the images are mirrored left to right;
//! - *shift*: the image is padded by `pad` pixels on every side and cropped to its size again, all
//!   (2·pad + 1)² crops equally likely. Padding is 0 in *raw* bytes, before normalization, as in
//!   torchvision's `RandomCrop(32, padding=4)`: black, not the mean;
//! - *normalize*: (v − mean) / std, from a table of 256 values per channel;
//! - *cutout*: a square of `cutout` pixels around a uniformly drawn center, clipped at the border,
//!   is 0 *after* normalization, as in the code of Cutout's authors: the mean, so that it carries
//!   no information.
//!
//! This module draws the [`Placement`] of an image; the device moves the bytes
//! ([`superweight_engine::ImageSet`]).

use superweight_engine::ImageSample;
use superweight_plan::arch::ImageShape;

use super::images::Normalization;
use super::random::{Counter, Stream};

/// Settings of the augmentation of training images.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Augment {
    /// Smallest area of a crop that is resized to the image, as a fraction; `None` disables it.
    pub stretch: Option<f64>,
    /// Largest shift in pixels, along both axes.
    pub pad: usize,
    /// Whether half of the images are mirrored left to right.
    pub flip: bool,
    /// Side in pixels of the square that is cut out; 0 disables it.
    pub cutout: usize,
}

impl Augment {
    /// No augmentation.
    pub const NONE: Self = Self { stretch: None, pad: 0, flip: false, cutout: 0 };
    /// The usual augmentation of CIFAR: shifts of up to 4 pixels, and flips.
    pub const CIFAR: Self = Self { stretch: None, pad: 4, flip: true, cutout: 0 };

    /// Draws the placement of this image in this epoch.
    pub fn place(&self, shape: ImageShape, epoch: Counter, image: u64) -> Placement {
        let shift = |stream| {
            epoch.below(image, stream, 2 * self.pad as u64 + 1) as isize - self.pad as isize
        };
        let hole = |stream, side: usize| {
            let start =
                epoch.below(image, stream, side as u64) as isize - (self.cutout / 2) as isize;
            let end = start + self.cutout as isize;
            (start.max(0) as usize, (end as usize).min(side))
        };
        Placement {
            crop: self.stretch.map(|least| CropBox::draw(shape, least, epoch, image)),
            down: shift(Stream::CropY),
            right: shift(Stream::CropX),
            flip: self.flip && epoch.below(image, Stream::Flip, 2) == 1,
            hole: (self.cutout > 0).then(|| Hole {
                rows: hole(Stream::CutoutY, shape.height),
                columns: hole(Stream::CutoutX, shape.width),
            }),
        }
    }
}

/// How an image is moved into a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Crop that is resized to the size of the image before everything else.
    pub crop: Option<CropBox>,
    /// Row y shows row y + down of the (flipped) image, or padding.
    pub down: isize,
    /// Column x shows column x + right of the (flipped) image, or padding.
    pub right: isize,
    /// Whether the image is mirrored left to right.
    pub flip: bool,
    /// Rectangle that is set to 0.
    pub hole: Option<Hole>,
}

/// A rectangle that is cut out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// First row, and one past the last.
    pub rows: (usize, usize),
    /// First column, and one past the last.
    pub columns: (usize, usize),
}

/// A crop of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CropBox {
    /// First row and first column.
    pub at: [usize; 2],
    /// Number of rows and of columns.
    pub size: [usize; 2],
}

impl CropBox {
    /// Largest aspect ratio, width over height; the smallest is its inverse.
    const RATIO: f64 = 4.0 / 3.0;
    const ATTEMPTS: u64 = 10;

    /// Draws a crop of at least the fraction `least` of the area.
    fn draw(shape: ImageShape, least: f64, epoch: Counter, image: u64) -> Self {
        let all = [shape.height, shape.width];
        let [height, width] = all.map(|side| side as f64);
        let attempt = |attempt| {
            let fraction = least + (1.0 - least) * epoch.unit(image, Stream::Area, attempt);
            let ratio = Self::RATIO.powf(2.0 * epoch.unit(image, Stream::Ratio, attempt) - 1.0);
            let area = fraction * height * width;
            [area / ratio, area * ratio].map(|square| (square.sqrt().round() as usize).max(1))
        };
        let fits = |size: &[usize; 2]| size[0] <= all[0] && size[1] <= all[1];
        match (0..Self::ATTEMPTS).map(attempt).find(fits) {
            Some(size) => {
                let at = |stream, i: usize| {
                    epoch.below(image, stream, (all[i] - size[i] + 1) as u64) as usize
                };
                Self { at: [at(Stream::CropY, 0), at(Stream::CropX, 1)], size }
            }
            None => {
                let inside =
                    |side: f64, other: f64| side.min((other * Self::RATIO).round()) as usize;
                let size = [inside(height, width), inside(width, height)];
                Self { at: [0, 1].map(|i| (all[i] - size[i]) / 2), size }
            }
        }
    }
}

impl Placement {
    /// This placement of image number `image`, in the form that devices take.
    pub fn draw(&self, image: u32) -> ImageSample {
        let pair = |(first, end): (usize, usize)| [first as u32, end as u32];
        ImageSample {
            image,
            flip: u32::from(self.flip),
            down: self.down as i32,
            right: self.right as i32,
            cutout_rows: self.hole.map_or([0; 2], |hole| pair(hole.rows)),
            cutout_columns: self.hole.map_or([0; 2], |hole| pair(hole.columns)),
            crop: self.crop.map_or([0; 4], |CropBox { at: [top, left], size: [rows, columns] }| {
                [top, left, rows, columns].map(|n| n as u32)
            }),
        }
    }
}

/// Normalized value of every byte, per channel.
pub(super) fn table(normalization: &Normalization) -> Vec<[f32; 256]> {
    let channel = |(mean, std): (&f32, &f32)| std::array::from_fn(|v| (v as f32 - mean) / std);
    normalization.mean.iter().zip(normalization.std.iter()).map(channel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::random::Phase;
    use std::sync::Arc;
    use superweight_engine::{ImageSet, Shape};

    const SHAPE: ImageShape = ImageShape { channels: 3, height: 6, width: 5 };
    const NORMALIZATION: Normalization =
        Normalization::fixed(&[120.0, 100.0, 90.5], &[60.0, 50.0, 70.25]);

    /// Reference on whole arrays, step by step: flip, pad, crop, normalize, cut out. The engine
    /// tests the resizing.
    fn naive(image: &[u8], pad: usize, placement: Placement) -> Vec<f32> {
        let (h, w) = (SHAPE.height, SHAPE.width);
        let pixel = |y: usize, x: usize, c: usize| image[(y * w + x) * 3 + c];
        let mut padded = vec![vec![[0u8; 3]; w + 2 * pad]; h + 2 * pad];
        for y in 0..h {
            for x in 0..w {
                let from = if placement.flip { w - 1 - x } else { x };
                padded[y + pad][x + pad] = [0, 1, 2].map(|c| pixel(y, from, c));
            }
        }
        let (top, left) =
            ((placement.down + pad as isize) as usize, (placement.right + pad as isize) as usize);
        let mut out = vec![];
        for (y, row) in padded[top..top + h].iter().enumerate() {
            for (x, pixel) in row[left..left + w].iter().enumerate() {
                let inside = |range: (usize, usize), at: usize| range.0 <= at && at < range.1;
                let cut = placement
                    .hole
                    .is_some_and(|hole| inside(hole.rows, y) && inside(hole.columns, x));
                for (c, &v) in pixel.iter().enumerate() {
                    let value = (f32::from(v) - NORMALIZATION.mean[c]) / NORMALIZATION.std[c];
                    out.push(if cut { 0.0 } else { value });
                }
            }
        }
        out
    }

    /// Values that a device computes for one image.
    fn rendered(image: &[u8], placement: Placement) -> Vec<f32> {
        let set = ImageSet {
            shape: Shape::new(SHAPE.height, SHAPE.width, SHAPE.channels),
            pixels: Arc::new([&[7; 90], image].concat()),
            classes: vec![0, 1],
            table: table(&NORMALIZATION),
        };
        let mut out = vec![f32::NAN; 90];
        set.render(&placement.draw(1), &mut out);
        out
    }

    #[test]
    fn placements_render_as_the_reference() {
        let image: Vec<u8> = (0..90).map(|i| (i * 37 % 256) as u8).collect();
        let settings = [(0, false, 0), (2, true, 0), (4, true, 3), (1, false, 4), (4, true, 16)];
        for (pad, flip, cutout) in settings {
            let augment = Augment { pad, flip, cutout, stretch: None };
            for number in 0..200 {
                let placement = augment.place(SHAPE, Counter::new(1, Phase::Train, 2), number);
                assert_eq!(
                    rendered(&image, placement),
                    naive(&image, pad, placement),
                    "{placement:?}"
                );
            }
        }
    }

    #[test]
    fn without_augmentation_images_are_only_normalized() {
        let image: Vec<u8> = (0..90).collect();
        let placement = Augment::NONE.place(SHAPE, Counter::new(1, Phase::Train, 2), 3);
        assert_eq!(placement, Placement::default());
        assert!(rendered(&image, placement).iter().zip(&image).enumerate().all(
            |(i, (&value, &v))| {
                value == (f32::from(v) - NORMALIZATION.mean[i % 3]) / NORMALIZATION.std[i % 3]
            }
        ));
    }

    /// Crops lie inside the image and have areas, aspect ratios and places in their ranges.
    #[test]
    fn crops_have_the_distribution_of_torchvision() {
        let shape = ImageShape { channels: 3, height: 60, width: 80 };
        let augment = Augment { stretch: Some(0.25), ..Augment::NONE };
        let n = 20_000u64;
        let (mut shares, mut corners) = (0.0, [0.0; 2]);
        for image in 0..n {
            let placed = augment.place(shape, Counter::new(5, Phase::Train, 1), image);
            let CropBox { at, size: [rows, columns] } = placed.crop.unwrap();
            assert!(at[0] + rows <= 60 && at[1] + columns <= 80, "{placed:?}");
            let (share, ratio) = ((rows * columns) as f64 / 4800.0, columns as f64 / rows as f64);
            assert!((0.24..1.01).contains(&share) && (0.73..1.37).contains(&ratio), "{placed:?}");
            shares += share / n as f64;
            if rows < 60 && columns < 80 {
                corners[0] += at[0] as f64 / (60 - rows) as f64;
                corners[1] += at[1] as f64 / (80 - columns) as f64;
            } else {
                corners = corners.map(|sum| sum + 0.5);
            }
        }
        // A fraction s of a 4:3 image fits with probability −ln s / ln (16/9), below 9/16 always:
        // the average is 0.521.
        assert!((shares - 0.521).abs() < 0.01, "{shares}");
        assert!(corners.iter().all(|sum| (sum / n as f64 - 0.5).abs() < 0.02), "{corners:?}");
    }

    /// If no crop fits: the center, as much of the image as the aspect ratio allows.
    #[test]
    fn a_crop_that_never_fits_is_the_center() {
        let whole = Augment { stretch: Some(1.0), ..Augment::NONE };
        for (height, width, expected) in
            [(40, 40, [0, 0, 40, 40]), (12, 60, [0, 22, 12, 16]), (60, 12, [22, 0, 16, 12])]
        {
            let shape = ImageShape { channels: 1, height, width };
            let places =
                (0..50).map(|image| whole.place(shape, Counter::new(5, Phase::Train, 1), image));
            let often = places.filter(|placed| placed.draw(0).crop == expected).count();
            assert!(often > 25, "{height}×{width}: {often}");
        }
    }

    /// All 81 shifts, both flips and whole cutouts occur as often as they should, within 5 standard
    /// deviations.
    #[test]
    fn placements_are_uniform() {
        let shape = ImageShape::CIFAR;
        let augment = Augment { cutout: 16, ..Augment::CIFAR };
        let n = 81_000u64;
        let (mut windows, mut flips, mut full) = (vec![0f64; 81], 0f64, 0f64);
        for image in 0..n {
            let placed = augment.place(shape, Counter::new(9, Phase::Train, 1), image);
            windows[((placed.down + 4) * 9 + placed.right + 4) as usize] += 1.0;
            flips += f64::from(u8::from(placed.flip));
            let Hole { rows, columns } = placed.hole.unwrap();
            assert!(rows.0 < rows.1 && rows.1 <= 32 && (8..=16).contains(&(rows.1 - rows.0)));
            full += f64::from(u8::from(rows.1 - rows.0 == 16 && columns.1 - columns.0 == 16));
        }
        let near = |count: f64, probability: f64| {
            let (mean, n) = (probability * n as f64, n as f64);
            (count - mean).abs() < 5.0 * (n * probability * (1.0 - probability)).sqrt()
        };
        assert!(windows.iter().all(|&count| near(count, 1.0 / 81.0)), "{windows:?}");
        assert!(near(flips, 0.5), "{flips}");
        // Centers 8 to 24 of 32 cut out a whole square.
        assert!(near(full, (17.0 / 32.0) * (17.0 / 32.0)), "{full}");
    }
}
