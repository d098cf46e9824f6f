//! Mean μ and inverse standard deviation 1/σ of a batch, and the running statistics.
//!
//! A task takes two passes while its data is in cache: the mean first, then the squared distances
//! from it. The tasks are merged in f64: `M₂ = Σ M₂ᵢ + Σ nᵢ(μᵢ − μ)²`. This stays precise if the
//! mean is far from zero.

use rayon::prelude::*;

use super::{rows_of, set_of};
use crate::cpu::buffer::Views;
use crate::cpu::rows::{Rows, column_sums};
use crate::cpu::vector::{block, column_blocks, vectorised};
use crate::device::buffer::Control;
use crate::device::call::batch_norm::{RunningRule, Statistics};

pub(in crate::cpu) fn statistics_scratch(call: &Statistics) -> usize {
    let rows = rows_of(&call.shape);
    call.shape.segments * rows.tasks * 2 * rows.line
}

pub(in crate::cpu) fn statistics(call: &Statistics, v: &Views<'_>, scratch: &mut [f32]) {
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
    // Segments with their own statistics may share running statistics, which then receive the
    // segments' average.
    let sharing = shape.statistic_sets() / shape.running_sets();

    for (set, partials) in partials.chunks_exact(segments * rows.tasks * 2 * rows.line).enumerate()
    {
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

/// Updates `r ← (1−w)·r + Σ share·value`, one value per call.
fn blend(running: &mut f32, first: bool, weight: f64, share: f64, value: f64) {
    let kept = if first { (1.0 - weight) * f64::from(*running) } else { f64::from(*running) };
    *running = (kept + share * value) as f32;
}

/// Computes mean and sum of squared distances of a task, in the first row of each half of
/// `partial`.
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

/// Merges the moments of all tasks of a set. `finish` receives channel, mean and M₂.
fn merge_moments(
    rows: &Rows,
    partials: &[f32],
    count: f64,
    mut finish: impl FnMut(usize, f64, f64),
) {
    for first in (0..rows.channels).step_by(16) {
        let width = (rows.channels - first).min(16);
        let tasks = || {
            partials.chunks_exact(2 * rows.line).enumerate().map(|(i, partial)| {
                let n = rows.rows_in(i % rows.tasks) as f64;
                (
                    n,
                    &partial[first..first + width],
                    &partial[rows.line + first..rows.line + first + width],
                )
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
    /// Sums the squared distances from the mean per column.
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
