//! Blurs.

use super::dice::Dice;
use super::grid::{Border, Grid};
use super::{SIDE, Severity};

/// Where scikit-image cuts a normal kernel off.
pub(super) const TRUNCATE: f64 = 4.0;

pub(super) fn gaussian(x: &Grid, severity: Severity) -> Grid {
    x.gaussian(severity.of([0.4, 0.6, 0.7, 0.8, 1.0]), TRUNCATE, Border::Nearest)
}

/// A disk whose edge is softened by a 3×3 normal kernel.
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

/// Every pixel becomes one of four: itself, above, left, above left. The published code says "swap", but what it assigns
/// are views of one array, so that the second assignment does nothing.
pub(super) fn glass(x: &Grid, severity: Severity, dice: &mut Dice) -> Grid {
    let (deviation, rounds) = severity.of([(0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2)]);
    let mut bytes = x.gaussian(deviation, TRUNCATE, Border::Nearest).to_bytes();
    for _ in 0..rounds {
        for row in (2..SIDE).rev() {
            for col in (2..SIDE).rev() {
                let (from_col, from_row) = (col - dice.below(2), row - dice.below(2));
                let (to, from) = ((row * SIDE + col) * 3, (from_row * SIDE + from_col) * 3);
                bytes.copy_within(from..from + 3, to);
            }
        }
    }
    Grid::of_bytes(&bytes).gaussian(deviation, TRUNCATE, Border::Nearest)
}

pub(super) fn motion(image: &[u8], severity: Severity, angle: f64) -> Vec<u8> {
    let (radius, deviation) =
        severity.of([(6.0, 1.0), (6.0, 1.5), (6.0, 2.0), (8.0, 2.0), (9.0, 2.5)]);
    line(image, 3, Line { radius, deviation, angle })
}

/// Half a normal kernel along a line.
pub(super) struct Line {
    pub radius: f64,
    pub deviation: f64,
    /// Degrees.
    pub angle: f64,
}

/// Keeps a sum of equal pixels from being cut to the number below.
const SLACK: f64 = 1e-6;

/// ImageMagick's motion blur: places along the line are rounded to whole pixels, the result is cut to whole numbers.
pub(super) fn line(image: &[u8], channels: usize, line: Line) -> Vec<u8> {
    let width = 2 * line.radius.ceil() as usize + 1;
    let weights: Vec<f64> =
        (0..width).map(|i| (-0.5 * (i as f64 / line.deviation).powi(2)).exp()).collect();
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

/// The image and its magnifications by 1, 1.01, …, averaged.
pub(super) fn zoom(x: &Grid, severity: Severity) -> Grid {
    const STEP: f64 = 0.01;
    let end: f64 = severity.of([1.06, 1.11, 1.16, 1.21, 1.26]);
    // As many as numpy's `arange` gives, which the rounding of (end − 1)/0.01 decides, and its step.
    let count = ((end - 1.0) / STEP).ceil() as usize;
    let step = (1.0 + STEP) - 1.0;
    let mut sum = x.clone();
    for factor in (0..count).map(|i| 1.0 + i as f64 * step) {
        sum.values.iter_mut().zip(x.zoom(factor).values).for_each(|(sum, v)| *sum += v);
    }
    sum.values.iter_mut().for_each(|v| *v /= (count + 1) as f64);
    sum
}
