//! Splits `[rows, channels]` into tasks and lines for parallel, vectorised loops.
//!
//! A *line* is several rows treated as one, with `repeat·channels` elements: a multiple of 16 and
//! at least 256. So loops over a line use full vectors even for 3 or 16 channels. Per-channel
//! vectors are repeated to the length of a line. A *task* is a number of lines, about 32 KiB, which
//! stays in the L1 cache while it is read twice.

use rayon::prelude::*;

use super::vector::{block, column_blocks, vectorised};

/// Elements per task, if there are few channels.
const TASK: usize = 8192;
/// Smallest number of rows per task. With fewer rows, partial sums would be a notable part of the
/// work.
const TASK_ROWS: usize = 64;
/// Smallest number of elements per line.
const LINE: usize = 256;
/// Elements per task of plain elementwise work.
pub(super) const FLAT_TASK: usize = 16384;

/// Split of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    pub channels: usize,
    /// Rows per line.
    pub repeat: usize,
    /// Elements per line.
    pub line: usize,
    /// Elements per task; the last task may be smaller.
    pub task: usize,
    /// Elements per segment.
    pub segment: usize,
    /// Tasks per segment.
    pub tasks: usize,
}

impl Rows {
    pub(super) fn new(rows: usize, channels: usize) -> Self {
        let to_vector = 16 / gcd(channels, 16);
        let repeat = LINE.div_ceil(channels).next_multiple_of(to_vector);
        let task_rows = TASK.div_ceil(channels).max(TASK_ROWS).next_multiple_of(repeat);
        let task = task_rows * channels;
        let segment = rows * channels;
        Self {
            channels,
            repeat,
            line: repeat * channels,
            task,
            segment,
            tasks: segment.div_ceil(task),
        }
    }

    /// Number of rows in task `index`.
    pub(super) fn rows_in(&self, index: usize) -> usize {
        let end = ((index + 1) * self.task).min(self.segment);
        (end - index * self.task) / self.channels
    }

    /// Repeats a per-channel vector to the length of a line.
    pub(super) fn expand(&self, values: &[f32], line: &mut [f32]) {
        line.chunks_exact_mut(self.channels).for_each(|row| row.copy_from_slice(values));
    }

    /// Repeats the first row of a line over the rest of it.
    pub(super) fn expand_in_place(&self, line: &mut [f32]) {
        let (first, rest) = line.split_at_mut(self.channels);
        rest.chunks_exact_mut(self.channels).for_each(|row| row.copy_from_slice(first));
    }

    /// Adds the rows of a line into its first row.
    pub(super) fn fold(&self, line: &mut [f32]) {
        let (first, rest) = line.split_at_mut(self.channels);
        for row in rest.chunks_exact(self.channels) {
            first.iter_mut().zip(row).for_each(|(sum, v)| *sum += v);
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

vectorised! {
    /// Sums each column of `[·, line]`, including a last incomplete line.
    pub(super) fn column_sums(x: &[f32], line: usize, sums: &mut [f32]) {
        column_blocks!(line, |column, N| {
            let mut acc = [0f32; N];
            for row in x.chunks_exact(line) {
                let row = block::<N>(row, column);
                for j in 0..N {
                    acc[j] += row[j];
                }
            }
            sums[column..column + N].copy_from_slice(&acc);
        });
        let rest = x.chunks_exact(line).remainder();
        sums.iter_mut().zip(rest).for_each(|(sum, v)| *sum += v);
    }

    /// Sums the product of each column of two `[·, line]` arrays.
    pub(super) fn column_products(x: &[f32], y: &[f32], line: usize, sums: &mut [f32]) {
        column_blocks!(line, |column, N| {
            let mut acc = [0f32; N];
            for (x, y) in x.chunks_exact(line).zip(y.chunks_exact(line)) {
                let (x, y) = (block::<N>(x, column), block::<N>(y, column));
                for j in 0..N {
                    acc[j] += x[j] * y[j];
                }
            }
            sums[column..column + N].copy_from_slice(&acc);
        });
        let (x, y) = (x.chunks_exact(line).remainder(), y.chunks_exact(line).remainder());
        sums.iter_mut().zip(x.iter().zip(y)).for_each(|(sum, (x, y))| *sum += x * y);
    }
}

/// Adds per-task partial sums in f64 and in order. Each of the `stride`-sized partials has
/// `channels` values at `offset`. `finish` receives the channel and the sum.
pub(super) fn add_partials(
    partials: &[f32],
    stride: usize,
    offset: usize,
    channels: usize,
    mut finish: impl FnMut(usize, f64),
) {
    for first in (0..channels).step_by(16) {
        let width = (channels - first).min(16);
        let mut sums = [0f64; 16];
        for partial in partials.chunks_exact(stride) {
            for (sum, v) in sums.iter_mut().zip(&partial[offset + first..offset + first + width]) {
                *sum += f64::from(*v);
            }
        }
        (0..width).for_each(|j| finish(first + j, sums[j]));
    }
}

/// Applies `f` to equal pieces of an input and an output, in parallel.
pub(super) fn map_flat(x: &[f32], y: &mut [f32], f: impl Fn(&[f32], &mut [f32]) + Sync) {
    y.par_chunks_mut(FLAT_TASK).zip(x.par_chunks(FLAT_TASK)).for_each(|(y, x)| f(x, y));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_multiples_of_vectors_and_tasks_of_lines() {
        for channels in [1, 3, 10, 16, 24, 64, 100, 160, 257, 640] {
            let rows = Rows::new(1000, channels);
            assert!(rows.line.is_multiple_of(16) && rows.line >= LINE);
            assert!(rows.task.is_multiple_of(rows.line));
            assert_eq!((0..rows.tasks).map(|i| rows.rows_in(i)).sum::<usize>(), 1000);
        }
    }

    #[test]
    fn column_sums_include_incomplete_lines() {
        let rows = Rows::new(7, 3);
        let x: Vec<f32> = (0..21).map(|i| i as f32).collect();
        let mut sums = vec![0.0; rows.line];
        column_sums(&x, rows.line, &mut sums);
        rows.fold(&mut sums);
        assert_eq!(sums[..3], [63.0, 70.0, 77.0]);
    }
}
