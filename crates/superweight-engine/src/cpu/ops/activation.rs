//! ReLU and ReLU6 as separate kernels.

use rayon::prelude::*;

use crate::cpu::buffer::Views;
use crate::cpu::rows::{FLAT_TASK, map_flat};
use crate::cpu::vector::{clamp, vectorised};
use crate::device::buffer::InputGradient;
use crate::device::buffer::Write;
use crate::device::call::activation::{Backward, Forward};

pub(in crate::cpu) fn forward(call: &Forward, v: &Views<'_>) {
    let (low, high) = call.activation.bounds();
    match call.x {
        Some(x) => map_flat(v.read(x), v.write(call.y), |x, y| clamped(x, y, low, high)),
        None => {
            v.write(call.y).par_chunks_mut(FLAT_TASK).for_each(|y| clamped_in_place(y, low, high))
        }
    }
}

pub(in crate::cpu) fn backward(call: &Backward, v: &Views<'_>) {
    let (low, high) = call.activation.bounds();
    let y = v.read(call.y);
    match call.dx {
        InputGradient::InPlace => {
            map_flat(y, v.write(call.dy), |y, dy| mask_in_place(y, dy, low, high))
        }
        InputGradient::To(dx, write) => {
            let dy = v.read(call.dy);
            (v.write(dx).par_chunks_mut(FLAT_TASK))
                .zip(y.par_chunks(FLAT_TASK).zip(dy.par_chunks(FLAT_TASK)))
                .for_each(|(dx, (y, dy))| mask(y, dy, dx, write == Write::Add, low, high));
        }
    }
}

vectorised! {
    fn clamped(x: &[f32], y: &mut [f32], low: f32, high: f32) {
        x.iter().zip(y).for_each(|(x, y)| *y = clamp(*x, low, high));
    }

    fn clamped_in_place(y: &mut [f32], low: f32, high: f32) {
        y.iter_mut().for_each(|y| *y = clamp(*y, low, high));
    }

    fn mask_in_place(y: &[f32], dy: &mut [f32], low: f32, high: f32) {
        y.iter().zip(dy).for_each(|(y, dy)| *dy = if *y > low && *y < high { *dy } else { 0.0 });
    }

    fn mask(y: &[f32], dy: &[f32], dx: &mut [f32], add: bool, low: f32, high: f32) {
        for ((y, dy), dx) in y.iter().zip(dy).zip(dx) {
            let passed = if *y > low && *y < high { *dy } else { 0.0 };
            *dx = if add { *dx + passed } else { passed };
        }
    }
}
