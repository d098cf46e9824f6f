//! Batch norm in four passes over memory: statistics (read x), apply (read x, write y), and backward, sums (read x, dy)
//! and apply (read x, dy, write dx). It is bound by memory, so nothing else is read: activation and residual ride along.
//!
//! Statistics of a task are taken in two passes while it lies in cache, mean first, then squared distances from it, and
//! merged over tasks in f64: `M₂ = Σ M₂ᵢ + Σ nᵢ(μᵢ − μ)²`. No precision is lost where the mean is far from zero.

use rayon::prelude::*;

use super::buffer::Views;
use super::rows::{Rows, add_partials, column_sums};
use super::vector::{block, clamp, column_blocks, vectorised};
use crate::layout::Control;
use crate::ops::Write;
use crate::ops::batch_norm::{
    Affine, Apply, Backward, Moments, NormShape, Residual, RunningRule, Statistics,
};
use crate::program::InputGradient;

fn rows_of(shape: &NormShape) -> Rows {
    Rows::new(shape.rows, shape.channels)
}

/// Index of segment `s` in a tensor with this many sets.
fn set_of(segment: usize, sets: usize) -> usize {
    if sets == 1 { 0 } else { segment }
}

// Statistics.

pub(super) fn statistics_scratch(call: &Statistics) -> usize {
    let rows = rows_of(&call.shape);
    call.shape.segments * rows.tasks * 2 * rows.line
}

pub(super) fn statistics(call: &Statistics, v: &Views<'_>, scratch: &mut [f32]) {
    let (shape, rows) = (&call.shape, rows_of(&call.shape));
    let partials = &mut scratch[..shape.segments * rows.tasks * 2 * rows.line];
    (partials.par_chunks_mut(rows.tasks * 2 * rows.line))
        .zip(v.read(call.x).par_chunks(rows.segment))
        .for_each(|(partials, x)| {
            (partials.par_chunks_mut(2 * rows.line))
                .zip(x.par_chunks(rows.task))
                .for_each(|(partial, x)| task_moments(&rows, x, partial));
        });

    let (mean, inverse) = (v.write(call.mean), v.write(call.inverse));
    let (segments, c) = (shape.segments / shape.statistic_sets(), shape.channels);
    let count = (segments * shape.rows) as f64;
    let mut running = call.running.map(|r| (v.write(r.mean), v.write(r.variance)));
    let weight = match call.running.map(|r| r.rule) {
        Some(RunningRule::Momentum(momentum)) => f64::from(momentum),
        Some(RunningRule::CumulativeAverage { control }) => {
            1.0 / f64::from(v.read_indices(control)[Control::BatchOfPass as usize].max(1))
        }
        None => 0.0,
    };
    // Where segments with their own statistics share running ones, those take in the segments' average.
    let sharing = shape.statistic_sets() / shape.running_sets();

    for (set, partials) in partials.chunks_exact(segments * rows.tasks * 2 * rows.line).enumerate() {
        merge_moments(&rows, partials, count, |channel, m, m2| {
            let biased = m2 / count;
            mean[set * c + channel] = m as f32;
            inverse[set * c + channel] = (1.0 / (biased + f64::from(call.epsilon)).sqrt()) as f32;
            if let Some((running_mean, running_variance)) = &mut running {
                let at = set_of(set, shape.running_sets()) * c + channel;
                let first = set.is_multiple_of(sharing);
                let share = weight / sharing as f64;
                let unbiased = m2 / (count - 1.0);
                blend(&mut running_mean[at], first, weight, share, m);
                blend(&mut running_variance[at], first, weight, share, unbiased);
            }
        });
    }
}

/// `r ← (1−w)·r + Σ share·value`, one value at a time.
fn blend(running: &mut f32, first: bool, weight: f64, share: f64, value: f64) {
    let kept = if first { (1.0 - weight) * f64::from(*running) } else { f64::from(*running) };
    *running = (kept + share * value) as f32;
}

/// Mean and sum of squared distances of a task, in the first row of either half of `partial`.
fn task_moments(rows: &Rows, x: &[f32], partial: &mut [f32]) {
    let (mean, squares) = partial.split_at_mut(rows.line);
    column_sums(x, rows.line, mean);
    rows.fold(mean);
    let scale = 1.0 / (x.len() / rows.channels) as f32;
    mean[..rows.channels].iter_mut().for_each(|m| *m *= scale);
    rows.expand_in_place(mean);
    column_squares(x, mean, squares);
    rows.fold(squares);
}

/// Merges the moments of all tasks of a set; `finish` gets channel, mean and M₂.
fn merge_moments(rows: &Rows, partials: &[f32], count: f64, mut finish: impl FnMut(usize, f64, f64)) {
    for first in (0..rows.channels).step_by(16) {
        let width = (rows.channels - first).min(16);
        let tasks = || {
            partials.chunks_exact(2 * rows.line).enumerate().map(|(i, partial)| {
                let n = rows.rows_in(i % rows.tasks) as f64;
                (n, &partial[first..first + width], &partial[rows.line + first..rows.line + first + width])
            })
        };
        let mut mean = [0f64; 16];
        for (n, means, _) in tasks() {
            mean.iter_mut().zip(means).for_each(|(sum, m)| *sum += n * f64::from(*m));
        }
        mean.iter_mut().for_each(|m| *m /= count);
        let mut squares = [0f64; 16];
        for (n, means, m2) in tasks() {
            for j in 0..width {
                let distance = f64::from(means[j]) - mean[j];
                squares[j] += f64::from(m2[j]) + n * distance * distance;
            }
        }
        (0..width).for_each(|j| finish(first + j, mean[j], squares[j]));
    }
}

vectorised! {
    /// Sum of squared distances from the mean, per column.
    fn column_squares(x: &[f32], mean: &[f32], squares: &mut [f32]) {
        let line = mean.len();
        column_blocks!(line, |column, N| {
            let center = *block::<N>(mean, column);
            let mut acc = [0f32; N];
            for row in x.chunks_exact(line) {
                let row = block::<N>(row, column);
                for j in 0..N {
                    let d = row[j] - center[j];
                    acc[j] += d * d;
                }
            }
            squares[column..column + N].copy_from_slice(&acc);
        });
        let rest = x.chunks_exact(line).remainder();
        for ((sum, v), center) in squares.iter_mut().zip(rest).zip(mean) {
            *sum += (v - center) * (v - center);
        }
    }
}

// Apply.

pub(super) fn apply_scratch(call: &Apply) -> usize {
    call.shape.segments * 2 * rows_of(&call.shape).line
}

/// `scale = γ/σ` and `shift = β − μ·γ/σ` of a segment; the same numbers in forward and backward.
struct Folded<'a> {
    mean: &'a [f32],
    second: &'a [f32],
    epsilon: Option<f32>,
    gamma: &'a [f32],
    beta: &'a [f32],
    shape: NormShape,
}

impl<'a> Folded<'a> {
    fn new(shape: NormShape, moments: &Moments, affine: &Affine, v: &'a Views<'_>) -> Self {
        let (mean, second, epsilon) = match *moments {
            Moments::Batch { mean, inverse } => (mean, inverse, None),
            Moments::Running { mean, variance, epsilon } => (mean, variance, Some(epsilon)),
        };
        let (mean, second) = (v.read(mean), v.read(second));
        Self { mean, second, epsilon, gamma: v.read(affine.scale), beta: v.read(affine.shift), shape }
    }

    /// μ, 1/σ, γ and β of a channel.
    fn channel(&self, segment: usize, channel: usize) -> (f32, f32, f32, f32) {
        let c = self.shape.channels;
        let statistic = match self.epsilon {
            None => set_of(segment, self.shape.statistic_sets()) * c + channel,
            Some(_) => set_of(segment, self.shape.running_sets()) * c + channel,
        };
        let parameter = set_of(segment, self.shape.parameter_sets()) * c + channel;
        let inverse = match self.epsilon {
            None => self.second[statistic],
            Some(epsilon) => 1.0 / (self.second[statistic] + epsilon).sqrt(),
        };
        (self.mean[statistic], inverse, self.gamma[parameter], self.beta[parameter])
    }

    fn scale_and_shift(&self, segment: usize, channel: usize) -> (f32, f32) {
        let (mean, inverse, gamma, beta) = self.channel(segment, channel);
        let scale = gamma * inverse;
        (scale, beta - mean * scale)
    }
}

pub(super) fn apply(call: &Apply, v: &Views<'_>, scratch: &mut [f32]) {
    let (shape, rows) = (&call.shape, rows_of(&call.shape));
    let folded = Folded::new(*shape, &call.moments, &call.affine, v);
    let lines = &mut scratch[..shape.segments * 2 * rows.line];
    for (segment, lines) in lines.chunks_exact_mut(2 * rows.line).enumerate() {
        let (scale, shift) = lines.split_at_mut(rows.line);
        for channel in 0..shape.channels {
            (scale[channel], shift[channel]) = folded.scale_and_shift(segment, channel);
        }
        rows.expand_in_place(scale);
        rows.expand_in_place(shift);
    }
    let lines = &*lines;
    let (low, high) = call.activation.bounds();
    let y = v.write(call.y);
    let x = call.x.map(|x| v.read(x));
    let residual = match call.residual {
        Some(Residual::From(residual)) => Some(v.read(residual)),
        _ => None,
    };
    let at_destination = matches!(call.residual, Some(Residual::AtDestination));
    y.par_chunks_mut(rows.segment).enumerate().for_each(|(segment, y)| {
        let (scale, shift) = lines[segment * 2 * rows.line..][..2 * rows.line].split_at(rows.line);
        let start = segment * rows.segment;
        y.par_chunks_mut(rows.task).enumerate().for_each(|(task, y)| {
            let range = start + task * rows.task..start + task * rows.task + y.len();
            match (x.map(|x| &x[range.clone()]), residual.map(|r| &r[range.clone()])) {
                (None, _) => normalise_in_place(y, scale, shift, low, high),
                (Some(x), Some(r)) => normalise_with(x, r, y, scale, shift, low, high),
                (Some(x), None) if at_destination => normalise_onto(x, y, scale, shift, low, high),
                (Some(x), None) => normalise(x, y, scale, shift, low, high),
            }
        });
    });
}

vectorised! {
    fn normalise(x: &[f32], y: &mut [f32], scale: &[f32], shift: &[f32], low: f32, high: f32) {
        for (x, y) in x.chunks(scale.len()).zip(y.chunks_mut(scale.len())) {
            for ((x, y), (scale, shift)) in x.iter().zip(y).zip(scale.iter().zip(shift)) {
                *y = clamp(x * scale + shift, low, high);
            }
        }
    }

    fn normalise_in_place(y: &mut [f32], scale: &[f32], shift: &[f32], low: f32, high: f32) {
        for y in y.chunks_mut(scale.len()) {
            for (y, (scale, shift)) in y.iter_mut().zip(scale.iter().zip(shift)) {
                *y = clamp(*y * scale + shift, low, high);
            }
        }
    }

    fn normalise_onto(x: &[f32], y: &mut [f32], scale: &[f32], shift: &[f32], low: f32, high: f32) {
        for (x, y) in x.chunks(scale.len()).zip(y.chunks_mut(scale.len())) {
            for ((x, y), (scale, shift)) in x.iter().zip(y).zip(scale.iter().zip(shift)) {
                *y = clamp(x * scale + shift + *y, low, high);
            }
        }
    }

    fn normalise_with(
        x: &[f32],
        r: &[f32],
        y: &mut [f32],
        scale: &[f32],
        shift: &[f32],
        low: f32,
        high: f32,
    ) {
        let n = scale.len();
        for ((x, r), y) in x.chunks(n).zip(r.chunks(n)).zip(y.chunks_mut(n)) {
            for (((x, r), y), (scale, shift)) in x.iter().zip(r).zip(y).zip(scale.iter().zip(shift)) {
                *y = clamp(x * scale + shift + r, low, high);
            }
        }
    }
}

// Backward.

/// Lines per segment that the passes share: μ, scale, shift, and the two factors of `dx`.
const LINES: usize = 5;

pub(super) fn backward_scratch(call: &Backward) -> usize {
    let rows = rows_of(&call.shape);
    let sums = 2 * call.shape.segments * call.shape.channels;
    call.shape.segments * (LINES + 2 * rows.tasks) * rows.line + sums
}

/// What the reduction and the gradient pass read, for one segment.
#[derive(Clone, Copy)]
struct Lines<'a> {
    mean: &'a [f32],
    scale: &'a [f32],
    shift: &'a [f32],
    slope: &'a [f32],
    offset: &'a [f32],
}

fn segment_lines(lines: &[f32], segment: usize, line: usize) -> Lines<'_> {
    let mut parts = lines[segment * LINES * line..][..LINES * line].chunks_exact(line);
    let mut next = || parts.next().expect("five lines");
    Lines { mean: next(), scale: next(), shift: next(), slope: next(), offset: next() }
}

pub(super) fn backward(call: &Backward, v: &Views<'_>, scratch: &mut [f32]) {
    let (shape, rows) = (&call.shape, rows_of(&call.shape));
    let (segments, c) = (shape.segments, shape.channels);
    let folded = Folded::new(*shape, &call.moments, &call.affine, v);
    let (lines, scratch) = scratch.split_at_mut(segments * LINES * rows.line);
    let (partials, scratch) = scratch.split_at_mut(segments * 2 * rows.tasks * rows.line);
    let (sums, products) = scratch[..2 * segments * c].split_at_mut(segments * c);

    for (segment, lines) in lines.chunks_exact_mut(LINES * rows.line).enumerate() {
        for channel in 0..c {
            let (scale, shift) = folded.scale_and_shift(segment, channel);
            lines[channel] = folded.channel(segment, channel).0;
            lines[rows.line + channel] = scale;
            lines[2 * rows.line + channel] = shift;
        }
        lines.chunks_exact_mut(rows.line).take(3).for_each(|line| rows.expand_in_place(line));
    }

    let x = v.read(call.x);
    let bounds = call.activation.bounds();
    let in_place = matches!(call.dx, Some(InputGradient::InPlace));
    // The gradient of the output is read in the first pass and, in place, written in the second.
    let mut dy_written: &mut [f32] = &mut [];
    let dy: &[f32] = if in_place {
        dy_written = v.write(call.dy);
        dy_written
    } else {
        v.read(call.dy)
    };

    reduce(&rows, x, dy, lines, bounds, partials);
    for segment in 0..segments {
        let partials = &partials[segment * 2 * rows.tasks * rows.line..][..2 * rows.tasks * rows.line];
        let stride = 2 * rows.line;
        add_partials(partials, stride, 0, c, |channel, sum| sums[segment * c + channel] = sum as f32);
        add_partials(partials, stride, rows.line, c, |channel, sum| {
            products[segment * c + channel] = (sum * f64::from(folded.channel(segment, channel).1)) as f32;
        });
    }
    parameter_gradients(call, v, sums, products);
    let Some(dx) = call.dx else { return };
    gradient_lines(call, &folded, &rows, sums, products, lines);

    let lines = &*lines;
    let place = |segment: usize, task: usize| segment * rows.segment + task * rows.task;
    let for_tasks = |out: &mut [f32], f: &(dyn Fn(usize, usize, &mut [f32]) + Sync)| {
        out.par_chunks_mut(rows.segment).enumerate().for_each(|(segment, out)| {
            out.par_chunks_mut(rows.task)
                .enumerate()
                .for_each(|(task, out)| f(segment, place(segment, task), out));
        });
    };
    match dx {
        InputGradient::InPlace => for_tasks(dy_written, &|segment, start, dy| {
            let x = &x[start..start + dy.len()];
            gradient_in_place(x, dy, segment_lines(lines, segment, rows.line), bounds);
        }),
        InputGradient::To(dx, write) => {
            let dy = v.read(call.dy);
            for_tasks(v.write(dx), &|segment, start, dx| {
                let range = start..start + dx.len();
                let lines = segment_lines(lines, segment, rows.line);
                match write {
                    Write::Set => gradient(&x[range.clone()], &dy[range], dx, lines, bounds),
                    Write::Add => gradient_onto(&x[range.clone()], &dy[range], dx, lines, bounds),
                }
            });
        }
    }
}

/// `Σ dz` and `Σ dz·(x − μ)` per task and column.
fn reduce(rows: &Rows, x: &[f32], dy: &[f32], lines: &[f32], bounds: (f32, f32), partials: &mut [f32]) {
    partials.par_chunks_mut(rows.tasks * 2 * rows.line).enumerate().for_each(|(segment, partials)| {
        let lines = segment_lines(lines, segment, rows.line);
        let start = segment * rows.segment;
        let (x, dy) = (&x[start..start + rows.segment], &dy[start..start + rows.segment]);
        (partials.par_chunks_mut(2 * rows.line))
            .zip(x.par_chunks(rows.task).zip(dy.par_chunks(rows.task)))
            .for_each(|(partial, (x, dy))| {
                let (sums, products) = partial.split_at_mut(rows.line);
                gradient_sums(x, dy, lines, bounds, sums, products);
                rows.fold(sums);
                rows.fold(products);
            });
    });
}

/// dβ and dγ: sums over the segments that share them.
fn parameter_gradients(call: &Backward, v: &Views<'_>, sums: &[f32], products: &[f32]) {
    let sets = call.shape.parameter_sets();
    for (gradient, sums) in [(v.write(call.dshift), sums), (v.write(call.dscale), products)] {
        if call.write == Write::Set {
            gradient.fill(0.0);
        }
        for (segment, sums) in sums.chunks_exact(call.shape.channels).enumerate() {
            let gradient = &mut gradient[set_of(segment, sets) * call.shape.channels..];
            gradient.iter_mut().zip(sums).for_each(|(g, sum)| *g += sum);
        }
    }
}

/// `dx = scale·dz + slope·(x − μ) + offset` with `slope = −Σ(γ·dz·x̂)/(M·σ²)`, `offset = −Σ(γ·dz)/(M·σ)`.
fn gradient_lines(
    call: &Backward,
    folded: &Folded<'_>,
    rows: &Rows,
    sums: &[f32],
    products: &[f32],
    lines: &mut [f32],
) {
    let (shape, c) = (&call.shape, call.shape.channels);
    let sets = shape.statistic_sets();
    let count = (shape.segments / sets * shape.rows) as f64;
    let from_batch = matches!(call.moments, Moments::Batch { .. });
    for (segment, lines) in lines.chunks_exact_mut(LINES * rows.line).enumerate() {
        let same_set = if sets == 1 { 0..shape.segments } else { segment..segment + 1 };
        for channel in 0..c {
            let (mut a, mut b) = (0f64, 0f64);
            for other in same_set.clone() {
                let gamma = f64::from(folded.channel(other, channel).2);
                a += gamma * f64::from(sums[other * c + channel]);
                b += gamma * f64::from(products[other * c + channel]);
            }
            let inverse = f64::from(folded.channel(segment, channel).1);
            let (slope, offset) = match from_batch {
                true => (-inverse * inverse * b / count, -inverse * a / count),
                false => (0.0, 0.0),
            };
            lines[3 * rows.line + channel] = slope as f32;
            lines[4 * rows.line + channel] = offset as f32;
        }
        lines.chunks_exact_mut(rows.line).skip(3).for_each(|line| rows.expand_in_place(line));
    }
}

/// `dz`: the gradient passes where the activation's input lies between the bounds.
#[inline(always)]
fn masked(x: f32, dy: f32, scale: f32, shift: f32, low: f32, high: f32) -> f32 {
    let z = x * scale + shift;
    if z > low && z < high { dy } else { 0.0 }
}

vectorised! {
    fn gradient_sums(
        x: &[f32],
        dy: &[f32],
        lines: Lines<'_>,
        bounds: (f32, f32),
        sums: &mut [f32],
        products: &mut [f32],
    ) {
        let (line, (low, high)) = (lines.mean.len(), bounds);
        column_blocks!(line, |column, N| {
            let mean = *block::<N>(lines.mean, column);
            let (scale, shift) = (*block::<N>(lines.scale, column), *block::<N>(lines.shift, column));
            let (mut sum, mut product) = ([0f32; N], [0f32; N]);
            for (x, dy) in x.chunks_exact(line).zip(dy.chunks_exact(line)) {
                let (x, dy) = (block::<N>(x, column), block::<N>(dy, column));
                for j in 0..N {
                    let dz = masked(x[j], dy[j], scale[j], shift[j], low, high);
                    sum[j] += dz;
                    product[j] += dz * (x[j] - mean[j]);
                }
            }
            sums[column..column + N].copy_from_slice(&sum);
            products[column..column + N].copy_from_slice(&product);
        });
        let (x, dy) = (x.chunks_exact(line).remainder(), dy.chunks_exact(line).remainder());
        for (j, (x, dy)) in x.iter().zip(dy).enumerate() {
            let dz = masked(*x, *dy, lines.scale[j], lines.shift[j], low, high);
            sums[j] += dz;
            products[j] += dz * (x - lines.mean[j]);
        }
    }

    fn gradient(x: &[f32], dy: &[f32], dx: &mut [f32], lines: Lines<'_>, bounds: (f32, f32)) {
        let (n, (low, high)) = (lines.mean.len(), bounds);
        for ((x, dy), dx) in x.chunks(n).zip(dy.chunks(n)).zip(dx.chunks_mut(n)) {
            let n = x.len();
            let (dy, dx, mean, scale) = (&dy[..n], &mut dx[..n], &lines.mean[..n], &lines.scale[..n]);
            let (shift, slope, offset) = (&lines.shift[..n], &lines.slope[..n], &lines.offset[..n]);
            for j in 0..n {
                let dz = masked(x[j], dy[j], scale[j], shift[j], low, high);
                dx[j] = scale[j] * dz + (slope[j] * (x[j] - mean[j]) + offset[j]);
            }
        }
    }

    fn gradient_onto(x: &[f32], dy: &[f32], dx: &mut [f32], lines: Lines<'_>, bounds: (f32, f32)) {
        let (n, (low, high)) = (lines.mean.len(), bounds);
        for ((x, dy), dx) in x.chunks(n).zip(dy.chunks(n)).zip(dx.chunks_mut(n)) {
            let n = x.len();
            let (dy, dx, mean, scale) = (&dy[..n], &mut dx[..n], &lines.mean[..n], &lines.scale[..n]);
            let (shift, slope, offset) = (&lines.shift[..n], &lines.slope[..n], &lines.offset[..n]);
            for j in 0..n {
                let dz = masked(x[j], dy[j], scale[j], shift[j], low, high);
                dx[j] += scale[j] * dz + (slope[j] * (x[j] - mean[j]) + offset[j]);
            }
        }
    }

    fn gradient_in_place(x: &[f32], dy: &mut [f32], lines: Lines<'_>, bounds: (f32, f32)) {
        let (n, (low, high)) = (lines.mean.len(), bounds);
        for (x, dy) in x.chunks(n).zip(dy.chunks_mut(n)) {
            let n = x.len();
            let (dy, mean, scale) = (&mut dy[..n], &lines.mean[..n], &lines.scale[..n]);
            let (shift, slope, offset) = (&lines.shift[..n], &lines.slope[..n], &lines.offset[..n]);
            for j in 0..n {
                let dz = masked(x[j], dy[j], scale[j], shift[j], low, high);
                dy[j] = scale[j] * dz + (slope[j] * (x[j] - mean[j]) + offset[j]);
            }
        }
    }
}
