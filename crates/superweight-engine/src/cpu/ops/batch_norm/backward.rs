//! Gradients of input, γ and β. One pass computes the sums, a second one `dx`.

use rayon::prelude::*;

use super::{Folded, rows_of, set_of};
use crate::cpu::buffer::Views;
use crate::cpu::rows::{Rows, add_partials};
use crate::cpu::vector::{block, column_blocks, vectorised};
use crate::device::buffer::InputGradient;
use crate::device::buffer::Write;
use crate::device::call::batch_norm::{Backward, Moments};

/// Lines per segment in scratch memory: μ, scale, shift, and the two coefficients of `dx`.
const LINES: usize = 5;

pub(in crate::cpu) fn backward_scratch(call: &Backward) -> usize {
    let rows = rows_of(&call.shape);
    let sums = 2 * call.shape.segments * call.shape.channels;
    call.shape.segments * (LINES + 2 * rows.tasks) * rows.line + sums
}

/// Lines of one segment that both passes read.
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

pub(in crate::cpu) fn backward(call: &Backward, v: &Views<'_>, scratch: &mut [f32]) {
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
    // The first pass reads the gradient of the output. In place, the second pass overwrites it.
    let mut dy_written: &mut [f32] = &mut [];
    let dy: &[f32] = if in_place {
        dy_written = v.write(call.dy);
        dy_written
    } else {
        v.read(call.dy)
    };

    reduce(&rows, x, dy, lines, bounds, partials);
    for segment in 0..segments {
        let partials =
            &partials[segment * 2 * rows.tasks * rows.line..][..2 * rows.tasks * rows.line];
        let stride = 2 * rows.line;
        add_partials(partials, stride, 0, c, |channel, sum| {
            sums[segment * c + channel] = sum as f32
        });
        add_partials(partials, stride, rows.line, c, |channel, sum| {
            products[segment * c + channel] =
                (sum * f64::from(folded.channel(segment, channel).1)) as f32;
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

/// Computes `Σ dz` and `Σ dz·(x − μ)` per task and column.
fn reduce(
    rows: &Rows,
    x: &[f32],
    dy: &[f32],
    lines: &[f32],
    bounds: (f32, f32),
    partials: &mut [f32],
) {
    partials.par_chunks_mut(rows.tasks * 2 * rows.line).enumerate().for_each(
        |(segment, partials)| {
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
        },
    );
}

/// Computes dβ and dγ as sums over the segments that share them.
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

/// Computes the coefficients of `dx = scale·dz + slope·(x − μ) + offset` with `slope =
/// −Σ(γ·dz·x̂)/(M·σ²)` and `offset = −Σ(γ·dz)/(M·σ)`.
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

/// Computes `dz`. The gradient passes where the activation's input is between the bounds.
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
