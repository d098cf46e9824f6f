//! Sums and copies of whole buffers.

use rayon::prelude::*;

use crate::cpu::buffer::Views;
use crate::cpu::rows::{FLAT_TASK, map_flat};
use crate::cpu::vector::{clamp, vectorised};
use crate::device::call::add::{Copy, Sum};

pub(in crate::cpu) fn sum(call: &Sum, v: &Views<'_>) {
    let (low, high) = call.activation.bounds();
    let (rhs, y) = (v.read(call.rhs), v.write(call.y));
    match call.lhs {
        None => map_flat(rhs, y, |rhs, y| accumulate(rhs, y, low, high)),
        Some(lhs) => (y.par_chunks_mut(FLAT_TASK))
            .zip(v.read(lhs).par_chunks(FLAT_TASK).zip(rhs.par_chunks(FLAT_TASK)))
            .for_each(|(y, (lhs, rhs))| added(lhs, rhs, y, low, high)),
    }
}

pub(in crate::cpu) fn copy(call: &Copy, v: &Views<'_>) {
    map_flat(v.read(call.x), v.write(call.y), |x, y| y.copy_from_slice(x));
}

vectorised! {
    fn accumulate(rhs: &[f32], y: &mut [f32], low: f32, high: f32) {
        rhs.iter().zip(y).for_each(|(rhs, y)| *y = clamp(*y + rhs, low, high));
    }

    fn added(lhs: &[f32], rhs: &[f32], y: &mut [f32], low: f32, high: f32) {
        for ((lhs, rhs), y) in lhs.iter().zip(rhs).zip(y) {
            *y = clamp(lhs + rhs, low, high);
        }
    }
}
