//! Softmax over rows.

use rayon::prelude::*;

use crate::cpu::buffer::Views;
use crate::device::buffer::Write;
use crate::device::call::softmax::{Backward, Forward};

pub(in crate::cpu) fn forward(call: &Forward, v: &Views<'_>) {
    (v.write(call.y).par_chunks_mut(call.channels))
        .zip(v.read(call.x).par_chunks(call.channels))
        .for_each(|(y, x)| {
            let (max, sum) = exponentials(x);
            let share = (1.0 / sum) as f32;
            y.iter_mut().zip(x).for_each(|(y, x)| *y = (x - max).exp() * share);
        });
}

pub(in crate::cpu) fn backward(call: &Backward, v: &Views<'_>) {
    (v.write(call.dx).par_chunks_mut(call.channels))
        .zip(
            v.read(call.y).par_chunks(call.channels).zip(v.read(call.dy).par_chunks(call.channels)),
        )
        .for_each(|(dx, (y, dy))| {
            let dot: f64 = y.iter().zip(dy).map(|(y, dy)| f64::from(*y) * f64::from(*dy)).sum();
            for ((dx, y), dy) in dx.iter_mut().zip(y).zip(dy) {
                let gradient = y * (dy - dot as f32);
                *dx = if call.write == Write::Add { *dx + gradient } else { gradient };
            }
        });
}

/// Returns the maximum of a row and `Σ exp(x − max)`.
pub(in crate::cpu) fn exponentials(x: &[f32]) -> (f32, f64) {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    (max, x.iter().map(|x| f64::from((x - max).exp())).sum())
}
