//! Blurs: gaussian, defocus, glass, motion and zoom.

use super::dice::Dice;
use super::grid::{Border, Grid, SIDE};
use super::kind::Severity;

/// Standard deviations at which scikit-image cuts off a Gaussian kernel.
pub(super) const TRUNCATE: f64 = 4.0;

/// Gaussian blur.
pub(super) fn gaussian(x: &Grid, severity: Severity) -> Grid {
    x.gaussian(severity.of([0.4, 0.6, 0.7, 0.8, 1.0]), TRUNCATE, Border::Nearest)
}

/// Blur by a disk whose edge a 3×3 Gaussian kernel softens.
pub(super) fn defocus(x: &Grid, severity: Severity) -> Grid {
    let (radius, soft): (f64, f64) =
        severity.of([(0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1)]);
    const REACH: i32 = 8;
    let side = (2 * REACH + 1) as usize;
    let places = || (-REACH..=REACH).flat_map(|y| (-REACH..=REACH).map(move |x| (y, x)));
    let disk: Vec<f64> =
        places().map(|(y, x)| f64::from(f64::from(x * x + y * y) <= radius * radius)).collect();
    let area: f64 = disk.iter().sum();
    let disk = Grid {
        rows: side,
        cols: side,
        channels: 1,
        values: disk.iter().map(|v| v / area).collect(),
    };
    let beside = (-0.5 / (soft * soft)).exp();
    let weights = [beside, 1.0, beside].map(|w| w / (1.0 + 2.0 * beside));
    let softening: Vec<f64> = weights.iter().flat_map(|a| weights.map(|b| a * b)).collect();
    x.filter(&disk.filter(&softening, Border::Reflect101).values, Border::Reflect101)
}

/// Replaces every pixel by one of four: itself, above, left, above left. The published code means
/// to swap pixels, but assigns views of one array, so its second assignment has no effect.
pub(super) fn glass(x: &Grid, severity: Severity, dice: &mut Dice) -> Grid {
    let (std, rounds) = severity.of([(0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2)]);
    let mut bytes = x.gaussian(std, TRUNCATE, Border::Nearest).to_bytes();
    for _ in 0..rounds {
        for row in (2..SIDE).rev() {
            for col in (2..SIDE).rev() {
                let (from_col, from_row) = (col - dice.below(2), row - dice.below(2));
                let (to, from) = ((row * SIDE + col) * 3, (from_row * SIDE + from_col) * 3);
                bytes.copy_within(from..from + 3, to);
            }
        }
    }
    Grid::of_bytes(&bytes).gaussian(std, TRUNCATE, Border::Nearest)
}

/// Motion blur at an angle in degrees.
pub(super) fn motion(image: &[u8], severity: Severity, angle: f64) -> Vec<u8> {
    let (radius, std) = severity.of([(6.0, 1.0), (6.0, 1.5), (6.0, 2.0), (8.0, 2.0), (9.0, 2.5)]);
    line(image, 3, Line { radius, std, angle })
}

/// A kernel of half a Gaussian along a line.
pub(super) struct Line {
    pub radius: f64,
    pub std: f64,
    /// Angle in degrees.
    pub angle: f64,
}

/// Added before truncation, so that a sum of equal pixels is not truncated to the next lower
/// integer.
const SLACK: f64 = 1e-6;

/// ImageMagick's motion blur: positions along the line are rounded to whole pixels, the result is
/// truncated to integers.
pub(super) fn line(image: &[u8], channels: usize, line: Line) -> Vec<u8> {
    let width = 2 * line.radius.ceil() as usize + 1;
    let weights: Vec<f64> =
        (0..width).map(|i| (-0.5 * (i as f64 / line.std).powi(2)).exp()).collect();
    let total: f64 = weights.iter().sum();
    let (sin, cos) = line.angle.to_radians().sin_cos();
    let place = |i: usize, along: f64| (i as f64 * along - 0.5).ceil() as isize;
    let mut out = Vec::with_capacity(image.len());
    for (row, col) in (0..SIDE).flat_map(|row| (0..SIDE).map(move |col| (row, col))) {
        for channel in 0..channels {
            let term = |(i, weight): (usize, &f64)| {
                let r = Border::Nearest.index(row as isize + place(i, sin), SIDE);
                let c = Border::Nearest.index(col as isize + place(i, cos), SIDE);
                weight / total * f64::from(image[(r * SIDE + c) * channels + channel])
            };
            out.push((weights.iter().enumerate().map(term).sum::<f64>() + SLACK) as u8);
        }
    }
    out
}

/// Mean of the image and its magnifications by 1, 1.01, ….
pub(super) fn zoom(x: &Grid, severity: Severity) -> Grid {
    const STEP: f64 = 0.01;
    let end: f64 = severity.of([1.06, 1.11, 1.16, 1.21, 1.26]);
    // Count and step of numpy's `arange`; rounding of (end − 1)/0.01 decides the count.
    let count = ((end - 1.0) / STEP).ceil() as usize;
    let step = (1.0 + STEP) - 1.0;
    let mut sum = x.clone();
    for factor in (0..count).map(|i| 1.0 + i as f64 * step) {
        sum.values.iter_mut().zip(x.zoom(factor).values).for_each(|(sum, v)| *sum += v);
    }
    sum.values.iter_mut().for_each(|v| *v /= (count + 1) as f64);
    sum
}
