//! Digital corruptions: brightness, contrast, saturate, pixelate and elastic.

use super::dice::Dice;
use super::grid::{Border, Grid, SIDE};
use super::kind::Severity;

/// Raises the value in HSV.
pub(super) fn brightness(x: Grid, severity: Severity) -> Grid {
    let more = severity.of([0.05, 0.1, 0.15, 0.2, 0.3]);
    in_hsv(x, |[h, s, v]| [h, s, (v + more).clamp(0.0, 1.0)])
}

/// Changes the saturation in HSV.
pub(super) fn saturate(x: Grid, severity: Severity) -> Grid {
    let (times, more) = severity.of([(0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2)]);
    in_hsv(x, |[h, s, v]| [h, (s * times + more).clamp(0.0, 1.0), v])
}

/// Moves every value towards the mean of its channel.
pub(super) fn contrast(mut x: Grid, severity: Severity) -> Grid {
    let kept = severity.of([0.75, 0.5, 0.4, 0.3, 0.15]);
    for channel in 0..3 {
        let mean = x.values.iter().skip(channel).step_by(3).sum::<f64>() / (SIDE * SIDE) as f64;
        x.values.iter_mut().skip(channel).step_by(3).for_each(|v| *v = (*v - mean) * kept + mean);
    }
    x
}

/// Changes every pixel in HSV.
fn in_hsv(mut x: Grid, change: impl Fn([f64; 3]) -> [f64; 3]) -> Grid {
    for pixel in x.values.chunks_exact_mut(3) {
        pixel.copy_from_slice(&rgb(change(hsv([pixel[0], pixel[1], pixel[2]]))));
    }
    x
}

/// RGB to HSV, all from 0 to 1.
fn hsv([r, g, b]: [f64; 3]) -> [f64; 3] {
    let v = r.max(g).max(b);
    let span = v - r.min(g).min(b);
    if span == 0.0 {
        return [0.0, 0.0, v];
    }
    // If channels are equal, the last one determines the hue.
    let sixths = if b == v {
        4.0 + (r - g) / span
    } else if g == v {
        2.0 + (b - r) / span
    } else {
        (g - b) / span
    };
    [(sixths / 6.0).rem_euclid(1.0), span / v, v]
}

/// HSV to RGB.
fn rgb([h, s, v]: [f64; 3]) -> [f64; 3] {
    let sector = (h * 6.0).floor();
    let f = h * 6.0 - sector;
    let (p, q, t) = (v * (1.0 - s), v * (1.0 - f * s), v * (1.0 - (1.0 - f) * s));
    match sector as u32 % 6 {
        0 => [v, t, p],
        1 => [q, v, p],
        2 => [p, v, t],
        3 => [p, q, v],
        4 => [t, p, v],
        _ => [v, p, q],
    }
}

/// Reduces the image to fewer pixels and enlarges it again, both by averages.
pub(super) fn pixelate(image: &[u8], severity: Severity) -> Vec<u8> {
    let factor: f64 = severity.of([0.95, 0.9, 0.85, 0.75, 0.65]);
    let small = (SIDE as f64 * factor) as usize;
    resize(&resize(image, SIDE, small), small, SIDE)
}

/// Pillow's box filter of a square RGB image: columns, then rows, rounded to integers in between.
fn resize(image: &[u8], from: usize, to: usize) -> Vec<u8> {
    let taps = taps(from, to);
    let round = |sum: f64| (sum + 0.5).clamp(0.0, 255.0) as u8;
    let mut wide = vec![0; from * to * 3];
    for (row, (col, (first, weights))) in
        (0..from).flat_map(|row| taps.iter().enumerate().map(move |tap| (row, tap)))
    {
        for channel in 0..3 {
            let term = |(i, w): (usize, &f64)| {
                w * f64::from(image[(row * from + first + i) * 3 + channel])
            };
            wide[(row * to + col) * 3 + channel] =
                round(weights.iter().enumerate().map(term).sum());
        }
    }
    let mut out = vec![0; to * to * 3];
    for (row, (first, weights)) in taps.iter().enumerate() {
        for place in 0..to * 3 {
            let term = |(i, w): (usize, &f64)| w * f64::from(wide[(first + i) * to * 3 + place]);
            out[row * to * 3 + place] = round(weights.iter().enumerate().map(term).sum());
        }
    }
    out
}

/// First source pixel and weights of every new pixel.
fn taps(from: usize, to: usize) -> Vec<(usize, Vec<f64>)> {
    let scale = from as f64 / to as f64;
    let (stretch, support) = (scale.max(1.0), 0.5 * scale.max(1.0));
    let tap = |i: usize| {
        let center = (i as f64 + 0.5) * scale;
        let first = (center - support + 0.5).max(0.0) as usize;
        let end = ((center + support + 0.5) as usize).min(from);
        let inside = |j: usize| {
            let at = (j as f64 - center + 0.5) / stretch;
            f64::from(at > -0.5 && at <= 0.5)
        };
        let weights: Vec<f64> = (first..end).map(inside).collect();
        let total: f64 = weights.iter().sum();
        (first, weights.iter().map(|w| w / total).collect())
    };
    (0..to).map(tap).collect()
}

/// Moves three corners of a square at random, and the image with them (an affine map); then moves
/// every pixel by smoothed noise.
pub(super) fn elastic(x: &Grid, severity: Severity, dice: &mut Dice) -> Grid {
    const SIZE: f64 = SIDE as f64;
    let (amount, std, reach) = severity.of([
        (0.0, 0.0, SIZE * 0.08),
        (SIZE * 0.05, SIZE * 0.2, SIZE * 0.07),
        (SIZE * 0.08, SIZE * 0.06, SIZE * 0.06),
        (SIZE * 0.1, SIZE * 0.04, SIZE * 0.05),
        (SIZE * 0.1, SIZE * 0.03, SIZE * 0.03),
    ]);
    let (near, far) = (SIZE / 2.0 - (SIDE / 3) as f64, SIZE / 2.0 + (SIDE / 3) as f64);
    let moved = [[far, far], [far, near], [near, near]]
        .map(|at| at.map(|v| v + dice.uniform(-reach, reach)));
    // Columns of the affine map: along x from the third point to the second, along y from the
    // second to the first.
    let side = far - near;
    let across = [0, 1].map(|k| (moved[1][k] - moved[2][k]) / side);
    let down = [0, 1].map(|k| (moved[0][k] - moved[1][k]) / side);
    let offset = [0, 1].map(|k| moved[2][k] - (across[k] + down[k]) * near);
    let determinant = across[0] * down[1] - down[0] * across[1];
    let warped = x.map(|row, col, channel| {
        let (dx, dy) = (col as f64 - offset[0], row as f64 - offset[1]);
        let from_x = (down[1] * dx - down[0] * dy) / determinant;
        let from_y = (across[0] * dy - across[1] * dx) / determinant;
        x.linear(from_y, from_x, channel, Border::Reflect101)
    });
    let mut displacement = || {
        let noise = Grid::layer(|| dice.uniform(-1.0, 1.0));
        noise.gaussian(std, 3.0, Border::Reflect)
    };
    let (dx, dy) = (displacement(), displacement());
    warped.map(|row, col, channel| {
        let y = row as f64 + amount * dy.at(row, col, 0);
        let x = col as f64 + amount * dx.at(row, col, 0);
        warped.linear(y, x, channel, Border::Reflect)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_come_back_from_hsv() {
        for i in 0..4096u32 {
            let color = [i % 16, i / 16 % 16, i / 256].map(|v| f64::from(v) / 15.0);
            let back = rgb(hsv(color));
            assert!(
                color.iter().zip(back).all(|(a, b)| (a - b).abs() < 1e-12),
                "{color:?} {back:?}"
            );
        }
    }
}
