//! A decoded picture, and how it becomes the image that a network takes.
//!
//! Resizing keeps the proportions: it takes the largest centered part of the network's shape.
//! Smaller images are averages with a triangular kernel as wide as the step; larger ones are
//! interpolated linearly.

use std::path::Path;

use superweight_plan::arch::ImageShape;

use crate::data::error::DataError;

/// Largest number of pixels of a picture that is decoded: 64 million, 192 MB.
pub const MAX_PIXELS: usize = 1 << 26;

/// A decoded RGB picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Number of rows.
    pub height: usize,
    /// Number of columns.
    pub width: usize,
    /// Three bytes per pixel, row by row.
    pub rgb: Vec<u8>,
}

impl Picture {
    /// Builds a picture; `path` is for the error if the number of bytes does not fit.
    pub(super) fn new(
        path: &Path,
        width: usize,
        height: usize,
        rgb: Vec<u8>,
    ) -> Result<Self, DataError> {
        match rgb.len() == width * height * 3 {
            true => Ok(Self { height, width, rgb }),
            false => {
                let expected = format!("{width}×{height} pixels");
                let found = format!("{} bytes of them", rgb.len());
                Err(DataError::malformed(path, 0, expected, found))
            }
        }
    }

    /// Builds a picture from four bytes per pixel, laid over black by their alpha.
    pub(super) fn from_rgba(
        path: &Path,
        width: usize,
        height: usize,
        rgba: &[u8],
    ) -> Result<Self, DataError> {
        let opaque = |v: &[u8]| [0, 1, 2].map(|channel| over_black(v[channel], v[3]));
        Self::new(path, width, height, rgba.chunks_exact(4).flat_map(opaque).collect())
    }

    /// Resizes the picture to the input of a network, `[row][column][channel]`.
    ///
    /// # Panics
    /// Panics unless `shape` has one channel (gray) or three (RGB).
    pub fn fit(&self, shape: ImageShape) -> Vec<u8> {
        assert!(matches!(shape.channels, 1 | 3), "pictures are gray or RGB");
        let fits = self.width * shape.height >= self.height * shape.width;
        // Size of the centered part, in pixels of the picture.
        let (rows, cols) = match fits {
            true => (self.height as f64, (self.height * shape.width) as f64 / shape.height as f64),
            false => ((self.width * shape.height) as f64 / shape.width as f64, self.width as f64),
        };
        let (top, left) = ((self.height as f64 - rows) / 2.0, (self.width as f64 - cols) / 2.0);
        let down = taps(self.height, top, rows, shape.height);
        let across = taps(self.width, left, cols, shape.width);
        let mut out = Vec::with_capacity(shape.height * shape.width * shape.channels);
        // Columns of that part alone: a picture may be a million times as wide.
        let start = across[0].0;
        let end =
            across.iter().map(|(first, weights)| first + weights.len()).max().unwrap_or(start);
        let mut line = vec![0.0; (end - start) * 3];
        for (first, weights) in &down {
            line.fill(0.0);
            for (row, weight) in
                self.rgb[first * self.width * 3..].chunks(self.width * 3).zip(weights)
            {
                line.iter_mut()
                    .zip(&row[start * 3..])
                    .for_each(|(sum, &v)| *sum += weight * f64::from(v));
            }
            for (first, weights) in &across {
                let channel = |c: usize| {
                    weights
                        .iter()
                        .enumerate()
                        .map(|(i, w)| w * line[(first - start + i) * 3 + c])
                        .sum::<f64>()
                };
                let rgb = [0, 1, 2].map(channel);
                let byte = |v: f64| (v + 0.5).clamp(0.0, 255.0) as u8;
                match shape.channels {
                    1 => out.push(byte(0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2])),
                    _ => out.extend(rgb.map(byte)),
                }
            }
        }
        out
    }
}

/// Interpolation along one axis. Returns, for each of `to` new pixels, the first of its source
/// pixels and their weights, which sum to 1. The sources are `part` pixels from `from` on, of
/// `size`.
fn taps(size: usize, from: f64, part: f64, to: usize) -> Vec<(usize, Vec<f64>)> {
    let step = part / to as f64;
    let reach = step.max(1.0);
    let tap = |i: usize| {
        let center = from + (i as f64 + 0.5) * step - 0.5;
        let first = (center - reach).ceil().clamp(0.0, (size - 1) as f64) as usize;
        let last = (center + reach).floor().clamp(first as f64, (size - 1) as f64) as usize;
        let weight = |j: usize| (1.0 - (j as f64 - center).abs() / reach).max(0.0);
        let mut weights: Vec<f64> = (first..=last).map(weight).collect();
        let total: f64 = weights.iter().sum();
        match total > 0.0 {
            true => weights.iter_mut().for_each(|w| *w /= total),
            false => weights.fill(1.0 / (last - first + 1) as f64),
        }
        (first, weights)
    };
    (0..to).map(tap).collect()
}

/// Color of a partly transparent value over a black background.
pub(super) fn over_black(value: u8, alpha: u8) -> u8 {
    ((u32::from(value) * u32::from(alpha) + 127) / 255) as u8
}

/// Refuses a picture without pixels, or with more than [`MAX_PIXELS`], before it is decoded.
pub(super) fn check_size(path: &Path, width: usize, height: usize) -> Result<(), DataError> {
    let pixels = width.checked_mul(height);
    match pixels.is_some_and(|pixels| (1..=MAX_PIXELS).contains(&pixels)) {
        true => Ok(()),
        false => {
            let expected = format!("a picture of 1 to {MAX_PIXELS} pixels (make it smaller)");
            Err(DataError::malformed(path, 0, expected, format!("{width}×{height}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: ImageShape = ImageShape { channels: 3, height: 2, width: 2 };

    #[test]
    fn resizing_averages_and_keeps_proportions() {
        let same = Picture { height: 2, width: 2, rgb: (0..12).collect() };
        assert_eq!(same.fit(SHAPE), same.rgb);
        // Four times as wide as high: the middle of the columns.
        let wide = Picture {
            height: 1,
            width: 4,
            rgb: [0, 80, 120, 240].iter().flat_map(|&v| [v; 3]).collect(),
        };
        let one = ImageShape { channels: 1, height: 1, width: 1 };
        let middle = wide.fit(one)[0];
        assert!((99..=101).contains(&middle), "{middle}");
        // A constant picture stays constant at every scale.
        let plane = Picture { height: 37, width: 61, rgb: vec![77; 37 * 61 * 3] };
        assert!(plane.fit(ImageShape::CIFAR).iter().all(|&v| v == 77));
        assert_eq!(plane.fit(ImageShape { channels: 1, height: 28, width: 28 }), vec![77; 784]);
        assert_eq!(
            Picture { height: 1, width: 1, rgb: vec![5; 3] }.fit(ImageShape::CIFAR),
            vec![5; 3072]
        );
    }

    /// Only the columns of the centered part are read; every output row used to sum the whole
    /// width.
    #[test]
    fn a_very_wide_picture_costs_no_more_than_its_middle() {
        let width = 1 << 22;
        let wide = Picture { height: 1, width, rgb: vec![9; width * 3] };
        let begin = std::time::Instant::now();
        assert_eq!(
            wide.fit(ImageShape { channels: 3, height: 1024, width: 1024 }),
            vec![9; 3 << 20]
        );
        assert!(begin.elapsed().as_secs() < 10);
    }
}
