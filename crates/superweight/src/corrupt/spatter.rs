//! Spatter: water drops with bright edges (severities 1 to 3), or mud (4 and 5).
//!
//! Water uses a chain of OpenCV's filters: Canny edges, the distance to them by a 5×5 chamfer,
//! histogram equalization, and an emboss. This file implements each as far as a 32×32 layer of
//! bytes needs it.

use super::blur::TRUNCATE;
use super::dice::Dice;
use super::grid::{Border, Grid, SIDE};
use super::kind::Severity;

/// Color of water.
const WATER: [f64; 3] = [175.0, 238.0, 238.0];
/// Color of mud.
const MUD: [f64; 3] = [63.0, 42.0, 20.0];

/// Covers the image with water or mud.
pub(super) fn spatter(mut x: Grid, severity: Severity, dice: &mut Dice) -> Grid {
    let [mean, std, smooth, threshold, strength] = severity.of([
        [0.62, 0.1, 0.7, 0.7, 0.5],
        [0.65, 0.1, 0.8, 0.7, 0.5],
        [0.65, 0.3, 1.0, 0.69, 0.5],
        [0.65, 0.1, 0.7, 0.69, 0.6],
        [0.65, 0.1, 0.5, 0.68, 0.6],
    ]);
    let liquid =
        Grid::layer(|| mean + std * dice.normal()).gaussian(smooth, TRUNCATE, Border::Nearest);
    let mud = severity.get() > 3;
    let cover = if mud {
        mud_cover(&liquid, threshold, strength)
    } else {
        water_cover(&liquid, threshold, strength)
    };
    for (pixel, cover) in x.values.chunks_exact_mut(3).zip(cover) {
        for channel in 0..3 {
            let v = &mut pixel[channel];
            *v = match mud {
                true => *v * (1.0 - cover) + cover * MUD[channel] / 255.0,
                false => *v + cover * WATER[channel] / 255.0,
            };
        }
    }
    x
}

/// Opacity of mud for every pixel.
fn mud_cover(liquid: &Grid, threshold: f64, smooth: f64) -> Vec<f64> {
    let wet = liquid.map(|row, col, _| f64::from(liquid.at(row, col, 0) > threshold));
    let soft = wet.gaussian(smooth, TRUNCATE, Border::Nearest).values;
    soft.into_iter().map(|v| if v < 0.8 { 0.0 } else { v }).collect()
}

/// Opacity of water for every pixel.
fn water_cover(liquid: &Grid, threshold: f64, strength: f64) -> Vec<f64> {
    // Noise above 1 wraps around, as in the published code, which converts to bytes without
    // clipping.
    let byte = |v: f64| if v < threshold { 0 } else { (v * 255.0) as i64 as u8 };
    let drops: Vec<u8> = liquid.values.iter().map(|&v| byte(v)).collect();
    let distances = distances(&edges(&drops));
    let near = layer(distances.iter().map(|&v| v.min(20.0)).collect());
    // Sum first, then divide: means that are integers must stay integers before truncation to
    // bytes.
    let means = |of: &Grid| {
        of.filter(&[1.0; 9], Border::Reflect101).values.into_iter().map(|v| v * (1.0 / 9.0))
    };
    let near: Vec<u8> = means(&near).map(|v| v as u8).collect();
    let emboss = [-2.0, -1.0, 0.0, -1.0, 1.0, 1.0, 0.0, 1.0, 2.0];
    let even = layer(equalized(&near).iter().map(|&v| v.into()).collect());
    let mut embossed = even.filter(&emboss, Border::Reflect101);
    embossed.values.iter_mut().for_each(|v| *v = v.clamp(0.0, 255.0));
    let cover: Vec<f64> =
        means(&embossed).zip(&drops).map(|(v, &drop)| v.round() * f64::from(drop)).collect();
    let largest = cover.iter().copied().fold(0.0, f64::max);
    // A layer without drops leaves the image unchanged; the published code divides by 0.
    cover.iter().map(|v| if largest > 0.0 { v / largest * strength } else { 0.0 }).collect()
}

/// A layer of one channel.
fn layer(values: Vec<f64>) -> Grid {
    Grid { rows: SIDE, cols: SIDE, channels: 1, values }
}

/// Canny edges with thresholds 50 and 150 on |dx| + |dy| of 3×3 Sobel gradients.
fn edges(image: &[u8]) -> Vec<bool> {
    const LOW: i32 = 50;
    const HIGH: i32 = 150;
    let at = |row: isize, col: isize| {
        let place = |i| Border::Nearest.index(i, SIDE);
        i32::from(image[place(row) * SIDE + place(col)])
    };
    let gradient = |row: isize, col: isize| {
        let dx = |r| at(r, col + 1) - at(r, col - 1);
        let dy = |c| at(row + 1, c) - at(row - 1, c);
        (dx(row - 1) + 2 * dx(row) + dx(row + 1), dy(col - 1) + 2 * dy(col) + dy(col + 1))
    };
    let magnitude = |row: isize, col: isize| {
        let inside = |i: isize| (0..SIDE as isize).contains(&i);
        let (dx, dy) = if inside(row) && inside(col) { gradient(row, col) } else { (0, 0) };
        dx.abs() + dy.abs()
    };
    let mut candidate = vec![false; SIDE * SIDE];
    let (mut found, mut open) = (vec![false; SIDE * SIDE], vec![]);
    for (row, col) in
        (0..SIDE as isize).flat_map(|row| (0..SIDE as isize).map(move |col| (row, col)))
    {
        let m = magnitude(row, col);
        if m <= LOW {
            continue;
        }
        let (dx, dy) = gradient(row, col);
        let slope = f64::from(dy.abs()) / f64::from(dx.abs().max(0)).max(f64::MIN_POSITIVE);
        let crest = if slope < std::f64::consts::SQRT_2 - 1.0 {
            m > magnitude(row, col - 1) && m >= magnitude(row, col + 1)
        } else if slope > std::f64::consts::SQRT_2 + 1.0 {
            m > magnitude(row - 1, col) && m >= magnitude(row + 1, col)
        } else {
            let side = if (dx ^ dy) < 0 { -1 } else { 1 };
            m > magnitude(row - 1, col - side) && m > magnitude(row + 1, col + side)
        };
        let place = row as usize * SIDE + col as usize;
        candidate[place] = crest;
        if crest && m > HIGH {
            found[place] = true;
            open.push(place);
        }
    }
    while let Some(place) = open.pop() {
        let (row, col) = (place / SIDE, place % SIDE);
        for r in row.saturating_sub(1)..=(row + 1).min(SIDE - 1) {
            for c in col.saturating_sub(1)..=(col + 1).min(SIDE - 1) {
                let next = r * SIDE + c;
                if candidate[next] && !found[next] {
                    found[next] = true;
                    open.push(next);
                }
            }
        }
    }
    found
}

/// Distance to the nearest edge by steps to adjacent pixels (1), diagonal pixels (1.4), and pixels
/// a knight's move away (2.1969).
fn distances(edges: &[bool]) -> Vec<f64> {
    const STEPS: [(isize, isize, f64); 8] = [
        (-2, -1, 2.1969),
        (-2, 1, 2.1969),
        (-1, -2, 2.1969),
        (-1, -1, 1.4),
        (-1, 0, 1.0),
        (-1, 1, 1.4),
        (-1, 2, 2.1969),
        (0, -1, 1.0),
    ];
    const FAR: f64 = 1e4;
    let mut out: Vec<f64> = edges.iter().map(|&edge| if edge { 0.0 } else { FAR }).collect();
    let side = SIDE as isize;
    let mut sweep = |forward: bool| {
        for i in 0..SIDE * SIDE {
            let place = if forward { i } else { SIDE * SIDE - 1 - i };
            let (row, col) = ((place / SIDE) as isize, (place % SIDE) as isize);
            for (dr, dc, length) in STEPS {
                let sign = if forward { 1 } else { -1 };
                let (r, c) = (row + sign * dr, col + sign * dc);
                if (0..side).contains(&r) && (0..side).contains(&c) {
                    out[place] = out[place].min(out[(r * side + c) as usize] + length);
                }
            }
        }
    };
    sweep(true);
    sweep(false);
    out
}

/// Histogram equalization: spreads gray levels so that all are about equally frequent.
fn equalized(image: &[u8]) -> Vec<u8> {
    let mut counts = [0u32; 256];
    image.iter().for_each(|&v| counts[usize::from(v)] += 1);
    let lowest = counts.iter().position(|&n| n > 0).unwrap_or(0);
    let others = image.len() as u32 - counts[lowest];
    if others == 0 {
        return image.to_vec();
    }
    let (mut levels, mut sum) = ([0; 256], 0);
    for level in lowest + 1..256 {
        sum += counts[level];
        levels[level] = (f64::from(sum) * 255.0 / f64::from(others)).round_ties_even() as u8;
    }
    image.iter().map(|&v| levels[usize::from(v)]).collect()
}
