//! Copies between a narrow activation and some columns of a wide one.

use rayon::prelude::*;

use crate::cpu::buffer::Views;
use crate::device::buffer::Write;
use crate::device::call::concat::{Backward, Forward};

/// Rows per task.
const ROWS: usize = 256;

pub(in crate::cpu) fn forward(call: &Forward, v: &Views<'_>) {
    let columns = call.columns;
    (v.write(call.y).par_chunks_mut(ROWS * columns.of))
        .zip(v.read(call.x).par_chunks(ROWS * columns.width))
        .for_each(|(y, x)| {
            for (y, x) in y.chunks_exact_mut(columns.of).zip(x.chunks_exact(columns.width)) {
                y[columns.start..columns.start + columns.width].copy_from_slice(x);
            }
        });
}

pub(in crate::cpu) fn backward(call: &Backward, v: &Views<'_>) {
    let columns = call.columns;
    (v.write(call.dx).par_chunks_mut(ROWS * columns.width))
        .zip(v.read(call.dy).par_chunks(ROWS * columns.of))
        .for_each(|(dx, dy)| {
            for (dx, dy) in dx.chunks_exact_mut(columns.width).zip(dy.chunks_exact(columns.of)) {
                let dy = &dy[columns.start..columns.start + columns.width];
                match call.write {
                    Write::Set => dx.copy_from_slice(dy),
                    Write::Add => dx.iter_mut().zip(dy).for_each(|(dx, dy)| *dx += dy),
                }
            }
        });
}
