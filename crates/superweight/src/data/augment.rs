//! An image on its way into a batch: a part of it stretched, flip, shifted crop, normalize, cutout.
//!
//! - *stretch*: a part of random area (all shares from the least on alike) and random shape (from 3:4 to 4:3, their logarithms
//!   alike) at a random place is stretched to the image's size, as torchvision's `RandomResizedCrop` does, bilinearly and
//!   rounded to bytes. A part that is not inside of the image is drawn again, nine times at most; then it is the middle;
//! - *flip*: left to right, for half of the images;
//! - *crop*: the image is padded by `pad` pixels on every side and a window of its old size cut out, all
//!   (2·pad + 1)² windows as likely. Padding is 0 in *raw* bytes, before normalising, as torchvision's
//!   `RandomCrop(32, padding=4)` on images does: black, not the mean;
//! - *normalize*: (v − mean) / deviation, from a table of 256 numbers per channel;
//! - *cutout*: a square of `cutout` pixels around a uniformly drawn centre, clipped at the border, is 0 *after*
//!   normalising, as in the code of Cutout's authors: the mean, so that it carries no information.
//!
//! Where an image lands ([`Placement`]) is drawn here; the device moves its bytes ([`superweight_engine::ImageSet`]).

use superweight_engine::ImageSample;
use superweight_plan::arch::ImageShape;

use super::images::Normalization;
use super::random::{Counter, Stream};

/// What may happen to a training image.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Augment {
    /// Stretch a part of at least this share of the area.
    pub stretch: Option<f64>,
    /// Shift by up to so many pixels.
    pub pad: usize,
    /// Flip half of the images.
    pub flip: bool,
    /// Side of the square that is cut out; 0 for none.
    pub cutout: usize,
}

impl Augment {
    /// Nothing happens.
    pub const NONE: Self = Self { stretch: None, pad: 0, flip: false, cutout: 0 };
    /// The CIFAR recipe.
    pub const CIFAR: Self = Self { stretch: None, pad: 4, flip: true, cutout: 0 };

    /// What happens to this image in this epoch.
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
            piece: self.stretch.map(|least| Piece::drawn(shape, least, epoch, image)),
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

/// Where an image lands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// What is stretched to the image's size, before all else.
    pub piece: Option<Piece>,
    /// Row y shows row y + down of the (flipped) image, or padding.
    pub down: isize,
    /// Column x shows column x + right of the (flipped) image, or padding.
    pub right: isize,
    /// Left to right.
    pub flip: bool,
    /// What is cut out.
    pub hole: Option<Hole>,
}

/// A rectangle: first, and one past the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Rows cut out.
    pub rows: (usize, usize),
    /// Columns cut out.
    pub columns: (usize, usize),
}

/// A part of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First row and column.
    pub at: [usize; 2],
    /// Rows and columns.
    pub size: [usize; 2],
}

impl Piece {
    /// Width over height, at most; at least its inverse.
    const RATIO: f64 = 4.0 / 3.0;
    const ATTEMPTS: u64 = 10;

    fn drawn(shape: ImageShape, least: f64, epoch: Counter, image: u64) -> Self {
        let all = [shape.height, shape.width];
        let [height, width] = all.map(|side| side as f64);
        let attempt = |attempt| {
            let share = least + (1.0 - least) * epoch.unit(image, Stream::Area, attempt);
            let ratio = Self::RATIO.powf(2.0 * epoch.unit(image, Stream::Ratio, attempt) - 1.0);
            let area = share * height * width;
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
    /// This image, placed so, as a device draws it.
    pub fn draw(&self, image: u32) -> ImageSample {
        let pair = |(first, end): (usize, usize)| [first as u32, end as u32];
        ImageSample {
            image,
            flip: u32::from(self.flip),
            down: self.down as i32,
            right: self.right as i32,
            cutout_rows: self.hole.map_or([0; 2], |hole| pair(hole.rows)),
            cutout_columns: self.hole.map_or([0; 2], |hole| pair(hole.columns)),
            crop: self.piece.map_or([0; 4], |Piece { at: [top, left], size: [rows, columns] }| {
                [top, left, rows, columns].map(|n| n as u32)
            }),
        }
    }
}

/// The number every byte becomes, per channel.
pub(super) fn table(normalization: &Normalization) -> Vec<[f32; 256]> {
    let channel =
        |(mean, deviation): (&f32, &f32)| std::array::from_fn(|v| (v as f32 - mean) / deviation);
    normalization.mean.iter().zip(normalization.deviation.iter()).map(channel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::random::Phase;
    use std::sync::Arc;
    use superweight_engine::{ImageSet, Shape};

    const SHAPE: ImageShape = ImageShape { channels: 3, height: 6, width: 5 };
    const NORMALISATION: Normalization =
        Normalization::fixed(&[120.0, 100.0, 90.5], &[60.0, 50.0, 70.25]);

    /// Step by step on whole arrays: flip, pad, cut the window, normalize, cut out. (Stretching has tests where it is done.)
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
                    let value = (f32::from(v) - NORMALISATION.mean[c]) / NORMALISATION.deviation[c];
                    out.push(if cut { 0.0 } else { value });
                }
            }
        }
        out
    }

    /// What a device shows of one image.
    fn rendered(image: &[u8], placement: Placement) -> Vec<f32> {
        let set = ImageSet {
            shape: Shape::new(SHAPE.height, SHAPE.width, SHAPE.channels),
            pixels: Arc::new([&[7; 90], image].concat()),
            classes: vec![0, 1],
            table: table(&NORMALISATION),
        };
        let mut out = vec![f32::NAN; 90];
        set.render(&placement.draw(1), &mut out);
        out
    }

    #[test]
    fn equals_the_naive_steps() {
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
    fn nothing_is_only_normalised() {
        let image: Vec<u8> = (0..90).collect();
        let placement = Augment::NONE.place(SHAPE, Counter::new(1, Phase::Train, 2), 3);
        assert_eq!(placement, Placement::default());
        assert!(rendered(&image, placement).iter().zip(&image).enumerate().all(
            |(i, (&value, &v))| {
                value == (f32::from(v) - NORMALISATION.mean[i % 3]) / NORMALISATION.deviation[i % 3]
            }
        ));
    }

    /// Parts lie inside, have the shapes and areas that they may have, and are where they may be.
    #[test]
    fn pieces_are_as_torchvision_draws_them() {
        let shape = ImageShape { channels: 3, height: 60, width: 80 };
        let augment = Augment { stretch: Some(0.25), ..Augment::NONE };
        let n = 20_000u64;
        let (mut shares, mut corners) = (0.0, [0.0; 2]);
        for image in 0..n {
            let placed = augment.place(shape, Counter::new(5, Phase::Train, 1), image);
            let Piece { at, size: [rows, columns] } = placed.piece.unwrap();
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
        // Of a share s of a 4:3 image −ln s / ln (16/9) fit, all below 9/16: 0.521 on average.
        assert!((shares - 0.521).abs() < 0.01, "{shares}");
        assert!(corners.iter().all(|sum| (sum / n as f64 - 0.5).abs() < 0.02), "{corners:?}");
    }

    /// Where no part fits, the middle: all of it, or as much as is not too long.
    #[test]
    fn a_piece_that_never_fits_is_the_middle() {
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

    /// All 81 windows, both flips and every centre come up, alike within 5 deviations.
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
        let near = |count: f64, share: f64| {
            let (mean, n) = (share * n as f64, n as f64);
            (count - mean).abs() < 5.0 * (n * share * (1.0 - share)).sqrt()
        };
        assert!(windows.iter().all(|&count| near(count, 1.0 / 81.0)), "{windows:?}");
        assert!(near(flips, 0.5), "{flips}");
        assert!(near(full, (17.0 / 32.0) * (17.0 / 32.0)), "{full}"); // centres 8 to 24 of 32 cut a whole square
    }
}
