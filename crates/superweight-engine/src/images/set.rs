//! Data sets of images as bytes, and augmented batches: crop and resize, flip, shift, normalise,
//! cutout.
//!
//! The host chooses the images and their augmentation ([`ImageSample`]). A device only copies
//! bytes, or computes bilinear means of four bytes in integers, so all devices produce the same
//! batches. A batch costs a table of 48 bytes per image instead of its pixels: 6 KiB instead of 1.5
//! MiB for 128 images of 32×32. Images of a set that is not in memory are sent one by one when a
//! batch uses them.

use std::ops::Range;
use std::sync::Arc;

#[cfg(feature = "cuda")]
use rayon::prelude::*;

use super::pixels::Pixels;
use crate::shape::Shape;

/// A data set of images with classes.
#[derive(Clone)]
pub struct ImageSet {
    /// Shape of each image.
    pub shape: Shape,
    /// Bytes of all images.
    pub pixels: Arc<dyn Pixels>,
    /// Class of each image.
    pub classes: Vec<u32>,
    /// Normalised value of each byte, per channel.
    pub table: Vec<[f32; 256]>,
}

/// An image of a batch and its augmentation. The layout in memory is the one that device kernels
/// read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ImageSample {
    /// Index of the image in the set.
    pub image: u32,
    /// 1 to flip the image horizontally, otherwise 0.
    pub flip: u32,
    /// Vertical shift: row y shows row y + down of the (flipped) image, or byte 0 outside it.
    pub down: i32,
    /// Horizontal shift: column x shows column x + right of the (flipped) image, or byte 0 outside
    /// it.
    pub right: i32,
    /// Rows of the cutout: first, and one past the last. The cutout is 0 after normalisation.
    pub cutout_rows: [u32; 2],
    /// Columns of the cutout: first, and one past the last.
    pub cutout_columns: [u32; 2],
    /// Part of the image that is resized to the full size: first row, first column, rows, columns.
    /// Zero rows or columns mean the whole image.
    pub crop: [u32; 4],
}

impl ImageSample {
    /// A sample without augmentation.
    pub fn unchanged(image: u32) -> Self {
        Self { image, ..Self::default() }
    }
}

impl ImageSet {
    /// Byte range of an image.
    fn place(&self, image: u32) -> Range<usize> {
        let len = self.shape.len();
        image as usize * len..(image as usize + 1) * len
    }

    /// Hints that these samples will be drawn soon.
    pub(crate) fn prefetch(&self, draws: &[ImageSample]) {
        if !self.pixels.in_memory() {
            draws.iter().for_each(|draw| self.pixels.prefetch(self.place(draw.image)));
        }
    }

    /// Copies the bytes of these images one after another into `to`. Blocks while they are read
    /// from disk.
    #[cfg(feature = "cuda")]
    pub(crate) fn gather(&self, draws: &[ImageSample], to: &mut Vec<u8>) {
        self.prefetch(draws);
        to.resize(draws.len() * self.shape.len(), 0);
        let bytes = self.pixels.bytes();
        let images = to.par_chunks_exact_mut(self.shape.len()).zip(draws);
        images.for_each(|(to, draw)| to.copy_from_slice(&bytes[self.place(draw.image)]));
    }

    /// Writes the augmented image to `out` without allocating.
    ///
    /// # Panics
    ///
    /// If the image or crop is out of range, or `out` has the wrong length.
    pub fn render(&self, draw: &ImageSample, out: &mut [f32]) {
        let Shape { channels, .. } = self.shape;
        let image = &self.pixels.bytes()[self.place(draw.image)];
        assert_eq!(out.len(), image.len());
        render(self.shape, image, &self.table, draw, out);
        let [first, end] = draw.cutout_columns.map(|column| column as usize * channels);
        let rows = out.chunks_exact_mut(self.shape.width * channels);
        for row in rows.take(draw.cutout_rows[1] as usize).skip(draw.cutout_rows[0] as usize) {
            row[first..end].fill(0.0);
        }
    }
}

/// Writes the augmented image without the cutout.
fn render(shape: Shape, image: &[u8], table: &[[f32; 256]], draw: &ImageSample, out: &mut [f32]) {
    let Shape { height, width, channels } = shape;
    let [top, left, rows, columns] = draw.crop;
    assert!(
        (top + rows) as usize <= height && (left + columns) as usize <= width,
        "{draw:?} of {shape:?}"
    );
    let (down, across) = (Side::new(height, top, rows), Side::new(width, left, columns));
    let means = Quotient::new(down.whole.divisor * across.whole.divisor, 256);
    for (y, row) in out.chunks_exact_mut(width * channels).enumerate() {
        let from = y.checked_add_signed(draw.down as isize).filter(|&from| from < height);
        let between = from.map(|from| down.between(from));
        let source = from.map(|from| &image[from * width * channels..][..width * channels]);
        for (x, pixel) in row.chunks_exact_mut(channels).enumerate() {
            let from = x.checked_add_signed(draw.right as isize).filter(|&from| from < width);
            let from = from.map(|from| if draw.flip == 1 { width - 1 - from } else { from });
            match source.zip(between).zip(from) {
                None => pixel.iter_mut().zip(table).for_each(|(value, table)| *value = table[0]),
                Some(((source, _), from)) if rows == 0 || columns == 0 => {
                    let source = &source[from * channels..][..channels];
                    for ((value, table), &byte) in pixel.iter_mut().zip(table).zip(source) {
                        *value = table[usize::from(byte)];
                    }
                }
                Some(((_, v), from)) => {
                    let h = across.between(from);
                    let four = v.places.map(|y| {
                        h.places.map(|x| &image[(y * width + x) * channels..][..channels])
                    });
                    let weights = v.weights.map(|y| h.weights.map(|x| x * y));
                    for (c, (value, table)) in pixel.iter_mut().zip(table).enumerate() {
                        let of = |y: usize, x: usize| weights[y][x] * u64::from(four[y][x][c]);
                        let sum = of(0, 0) + of(0, 1) + of(1, 0) + of(1, 1);
                        // Bilinear mean of four bytes, rounded to the nearest integer.
                        *value = table[means.of(sum + means.divisor / 2) as usize];
                    }
                }
            }
        }
    }
}

/// Resizing of `count` rows (or columns), starting at `first`, to `size`. Pixel centres are half a
/// pixel from the border; beyond it the outermost pixel repeats.
struct Side {
    size: usize,
    first: usize,
    count: usize,
    whole: Quotient,
}

/// A position between two rows, with the weight of each.
#[derive(Clone, Copy)]
struct Between {
    places: [usize; 2],
    weights: [u64; 2],
}

impl Side {
    fn new(size: usize, first: u32, count: u32) -> Self {
        let whole = Quotient::new(2 * size as u64, size as u64 + 1);
        Self { size, first: first as usize, count: count as usize, whole }
    }

    /// Source position of output row `at`.
    fn between(&self, at: usize) -> Between {
        let place = ((2 * at + 1) * self.count).saturating_sub(self.size) as u64;
        let low = self.whole.of(place);
        let past = place - low * self.whole.divisor;
        let (low, last) = (low as usize, self.count.saturating_sub(1));
        Between {
            places: [self.first + low, self.first + (low + 1).min(last)],
            weights: [self.whole.divisor - past, past],
        }
    }
}

/// Fast integer division by a constant divisor d: ⌊n·m / 2^k⌋ with m just above 2^k / d. The error
/// is at most n / 2^k, which is too small to change the result while n·d ≤ 2^k.
struct Quotient {
    divisor: u64,
    reciprocal: Option<u64>,
    shift: u32,
}

impl Quotient {
    /// Divides exactly for quotients below `most`.
    fn new(divisor: u64, most: u64) -> Self {
        // n < most·d, and n·m < most·2^k must fit into 64 bits.
        let shift = 63 - most.next_power_of_two().ilog2();
        let bound = u128::from(most) * u128::from(divisor) * u128::from(divisor);
        let reciprocal = (bound <= 1 << shift).then(|| (1u64 << shift) / divisor + 1);
        Self { divisor, reciprocal, shift }
    }

    fn of(&self, n: u64) -> u64 {
        match self.reciprocal {
            Some(reciprocal) => (n * reciprocal) >> self.shift,
            None => n / self.divisor,
        }
    }
}

impl std::fmt::Debug for ImageSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ImageSet({} of {:?})", self.classes.len(), self.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { height: 7, width: 9, channels: 2 };

    fn set() -> ImageSet {
        ImageSet {
            shape: SHAPE,
            pixels: Arc::new((0..SHAPE.len()).map(|i| (i * i % 251) as u8).collect::<Vec<u8>>()),
            classes: vec![0],
            table: vec![std::array::from_fn(|v| v as f32); 2],
        }
    }

    fn rendered(draw: ImageSample) -> Vec<f32> {
        let mut out = vec![f32::NAN; SHAPE.len()];
        set().render(&draw, &mut out);
        out
    }

    /// Compares with bilinear interpolation in f64, which must round to the same byte within half a
    /// unit.
    #[test]
    fn a_crop_is_resized_bilinearly() {
        let image = rendered(ImageSample::unchanged(0));
        for (top, left, rows, columns) in
            [(0, 0, 7, 9), (2, 3, 4, 5), (6, 8, 1, 1), (0, 4, 7, 2), (3, 0, 1, 9)]
        {
            let part = [top, left, rows, columns].map(|n| n as u32);
            let found = rendered(ImageSample { crop: part, ..ImageSample::default() });
            let pixel = |y: usize, x: usize, c: usize| {
                f64::from(image[((top + y.min(rows - 1)) * 9 + left + x.min(columns - 1)) * 2 + c])
            };
            let place = |at: usize, size: usize, count: usize| {
                ((at as f64 + 0.5) * count as f64 / size as f64 - 0.5).max(0.0)
            };
            for (i, found) in found.iter().enumerate() {
                let (y, x, c) = (place(i / 18, 7, rows), place(i / 2 % 9, 9, columns), i % 2);
                let (low, left) = (y.floor() as usize, x.floor() as usize);
                let (down, right) = (y - y.floor(), x - x.floor());
                let row = |y| (1.0 - right) * pixel(y, left, c) + right * pixel(y, left + 1, c);
                let expected = (1.0 - down) * row(low) + down * row(low + 1);
                assert!(
                    (f64::from(*found) - expected).abs() <= 0.5 + 1e-9,
                    "{part:?}, {i}: {found} {expected}"
                );
            }
        }
        assert_eq!(rendered(ImageSample { crop: [0, 0, 7, 9], ..ImageSample::default() }), image);
    }

    #[test]
    fn quotients_equal_integer_division() {
        for size in (1..=300).chain([1000, 1023, 1024, 2048, 5000]) {
            let side = Quotient::new(2 * size, size + 1);
            let mean = Quotient::new(4 * size * (size / 2 + 1), 256);
            for (quotient, most) in [(side, size), (mean, 255)] {
                let d = quotient.divisor;
                for n in (0..=most).flat_map(|q| [q * d, q * d + 1, q * d + d / 2, q * d + d - 1]) {
                    assert_eq!(quotient.of(n), n / d, "{n} / {d}");
                }
            }
        }
        // Falls back to a division if the product may be inexact.
        assert!(Quotient::new(4 * 2048 * 2048, 256).reciprocal.is_none());
        assert!(Quotient::new(4 * 1024 * 1024, 256).reciprocal.is_some());
    }

    /// Flip and shift apply to the resized crop.
    #[test]
    fn a_resized_crop_is_flipped_and_shifted_like_an_image() {
        let part = ImageSample { crop: [1, 2, 5, 4], ..ImageSample::default() };
        let moved = rendered(ImageSample { flip: 1, down: 2, right: -3, ..part });
        let part = rendered(part);
        for (i, &found) in moved.iter().enumerate() {
            let (y, x) = (i / 18 + 2, (i / 2 % 9).checked_sub(3));
            let expected = x.filter(|_| y < 7).map_or(0.0, |x| part[(y * 9 + 8 - x) * 2 + i % 2]);
            assert_eq!(found, expected, "{i}");
        }
    }
}
