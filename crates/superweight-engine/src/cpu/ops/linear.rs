//! Biases. A linear layer has one row per image, so one thread suffices. A folded convolution has
//! one row per pixel.

use rayon::prelude::*;

use crate::cpu::buffer::Views;
use crate::cpu::rows::{FLAT_TASK, column_sums};
use crate::cpu::vector::{clamp, vectorised};
use crate::device::buffer::Write;
use crate::device::call::conv::Epilogue;
use crate::device::call::linear::{BiasBackward, BiasForward};

pub(in crate::cpu) fn bias_forward(call: &BiasForward, v: &Views<'_>) {
    add_to_rows(v.read(call.bias), v.write(call.y));
}

/// Computes `y = act(y + bias)` over all pixels.
pub(in crate::cpu) fn finish(epilogue: &Epilogue, v: &Views<'_>, y: &mut [f32]) {
    let (bias, (low, high)) = (v.read(epilogue.bias), epilogue.activation.bounds());
    let task = FLAT_TASK.next_multiple_of(bias.len());
    y.par_chunks_mut(task).for_each(|y| add_and_clamp(bias, y, low, high));
}

pub(in crate::cpu) fn bias_backward(call: &BiasBackward, v: &Views<'_>) {
    let (dy, dbias) = (v.read(call.dy), v.write(call.dbias));
    match call.write {
        Write::Set => column_sums(dy, call.channels, dbias),
        Write::Add => {
            for row in dy.chunks_exact(call.channels) {
                dbias.iter_mut().zip(row).for_each(|(sum, v)| *sum += v);
            }
        }
    }
}

vectorised! {
    fn add_to_rows(bias: &[f32], y: &mut [f32]) {
        for row in y.chunks_exact_mut(bias.len()) {
            row.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
        }
    }

    fn add_and_clamp(bias: &[f32], y: &mut [f32], low: f32, high: f32) {
        for row in y.chunks_exact_mut(bias.len()) {
            row.iter_mut().zip(bias).for_each(|(y, b)| *y = clamp(*y + b, low, high));
        }
    }
}
