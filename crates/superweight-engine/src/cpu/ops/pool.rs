//! Pooling. A forward task computes one row of outputs. A backward task handles one image, because
//! windows overlap.

use rayon::prelude::*;

use crate::cpu::buffer::Views;
use crate::cpu::rows::column_sums;
use crate::cpu::vector::vectorised;
use crate::device::buffer::Write;
use crate::device::call::pool::{Backward, Forward, GlobalBackward, GlobalForward, PoolShape};
use crate::graph::ops::pool::PoolKind;

impl PoolShape {
    /// Input rows (or columns) of the window of output `at`, without padding.
    fn window(&self, d: usize, at: usize) -> std::ops::Range<usize> {
        let start = at * self.window.stride[d];
        let end = (start + self.window.kernel[d]).saturating_sub(self.window.padding[d]);
        start.saturating_sub(self.window.padding[d])..end.min(self.input[d])
    }

    fn image(&self) -> usize {
        self.input[0] * self.input[1] * self.channels
    }

    fn output_row(&self) -> usize {
        self.output[1] * self.channels
    }

    fn share(&self) -> f32 {
        1.0 / (self.window.kernel[0] * self.window.kernel[1]) as f32
    }
}

pub(in crate::cpu) fn forward(call: &Forward, v: &Views<'_>) {
    let (s, x) = (&call.shape, v.read(call.x));
    let y = v.write(call.y);
    let image_of = |row: usize| &x[row / s.output[0] * s.image()..][..s.image()];
    match (s.window.kind, call.positions) {
        (PoolKind::Average, _) => y
            .par_chunks_mut(s.output_row())
            .enumerate()
            .for_each(|(row, y)| average_row(s, image_of(row), row % s.output[0], y)),
        (PoolKind::Max, Some(positions)) => (y.par_chunks_mut(s.output_row()))
            .zip(v.write_indices(positions).par_chunks_mut(s.output_row()))
            .enumerate()
            .for_each(|(row, (y, positions))| {
                max_row(s, image_of(row), row % s.output[0], y, positions)
            }),
        (PoolKind::Max, None) => y
            .par_chunks_mut(s.output_row())
            .enumerate()
            .for_each(|(row, y)| max_row(s, image_of(row), row % s.output[0], y, &mut [])),
    }
}

fn average_row(s: &PoolShape, image: &[f32], i: usize, y: &mut [f32]) {
    for (j, y) in y.chunks_exact_mut(s.channels).enumerate() {
        y.fill(0.0);
        for a in s.window(0, i) {
            for b in s.window(1, j) {
                accumulate(&image[(a * s.input[1] + b) * s.channels..][..s.channels], y, 1.0);
            }
        }
        y.iter_mut().for_each(|y| *y *= s.share());
    }
}

/// Computes maxima. Stores their positions unless `positions` is empty.
fn max_row(s: &PoolShape, image: &[f32], i: usize, y: &mut [f32], positions: &mut [u32]) {
    for (j, y) in y.chunks_exact_mut(s.channels).enumerate() {
        let positions = positions.chunks_exact_mut(s.channels).nth(j).unwrap_or(&mut []);
        y.fill(f32::NEG_INFINITY);
        let first = s.window(0, i).start * s.input[1] + s.window(1, j).start;
        positions.fill(first as u32);
        for a in s.window(0, i) {
            for b in s.window(1, j) {
                let pixel = a * s.input[1] + b;
                let x = &image[pixel * s.channels..][..s.channels];
                match positions.is_empty() {
                    true => maximum(x, y),
                    false => winner(x, y, positions, pixel as u32),
                }
            }
        }
    }
}

pub(in crate::cpu) fn backward(call: &Backward, v: &Views<'_>) {
    let (s, dy) = (&call.shape, v.read(call.dy));
    let out = s.output[0] * s.output_row();
    let positions = call.positions.map(|positions| v.read_indices(positions));
    v.write(call.dx).par_chunks_mut(s.image()).enumerate().for_each(|(n, dx)| {
        if call.write == Write::Set {
            dx.fill(0.0);
        }
        let dy = &dy[n * out..][..out];
        match positions {
            Some(positions) => {
                for (at, dy) in positions[n * out..][..out]
                    .chunks_exact(s.channels)
                    .zip(dy.chunks_exact(s.channels))
                {
                    for (c, (at, dy)) in at.iter().zip(dy).enumerate() {
                        dx[*at as usize * s.channels + c] += dy;
                    }
                }
            }
            None => spread(s, dy, dx),
        }
    });
}

fn spread(s: &PoolShape, dy: &[f32], dx: &mut [f32]) {
    for (output, dy) in dy.chunks_exact(s.channels).enumerate() {
        let (i, j) = (output / s.output[1], output % s.output[1]);
        for a in s.window(0, i) {
            for b in s.window(1, j) {
                accumulate(
                    dy,
                    &mut dx[(a * s.input[1] + b) * s.channels..][..s.channels],
                    s.share(),
                );
            }
        }
    }
}

pub(in crate::cpu) fn global_forward(call: &GlobalForward, v: &Views<'_>) {
    let share = 1.0 / call.pixels as f32;
    (v.write(call.y).par_chunks_mut(call.channels))
        .zip(v.read(call.x).par_chunks(call.pixels * call.channels))
        .for_each(|(y, x)| {
            column_sums(x, call.channels, y);
            y.iter_mut().for_each(|y| *y *= share);
        });
}

pub(in crate::cpu) fn global_backward(call: &GlobalBackward, v: &Views<'_>) {
    let share = 1.0 / call.pixels as f32;
    (v.write(call.dx).par_chunks_mut(call.pixels * call.channels))
        .zip(v.read(call.dy).par_chunks(call.channels))
        .for_each(|(dx, dy)| broadcast(dy, dx, share, call.write == Write::Add));
}

vectorised! {
    fn accumulate(x: &[f32], y: &mut [f32], factor: f32) {
        x.iter().zip(y).for_each(|(x, y)| *y += x * factor);
    }

    fn maximum(x: &[f32], y: &mut [f32]) {
        x.iter().zip(y).for_each(|(x, y)| *y = if *x > *y || x.is_nan() { *x } else { *y });
    }

    fn winner(x: &[f32], y: &mut [f32], positions: &mut [u32], pixel: u32) {
        for ((x, y), position) in x.iter().zip(y).zip(positions) {
            let wins = *x > *y || x.is_nan();
            *y = if wins { *x } else { *y };
            *position = if wins { pixel } else { *position };
        }
    }

    fn broadcast(dy: &[f32], dx: &mut [f32], share: f32, add: bool) {
        for row in dx.chunks_exact_mut(dy.len()) {
            for (dx, dy) in row.iter_mut().zip(dy) {
                *dx = if add { *dx + dy * share } else { dy * share };
            }
        }
    }
}
