//! The bias of a linear layer. Rows are few (one per image), so one thread does it.

use super::buffer::Views;
use super::rows::column_sums;
use super::vector::vectorised;
use crate::ops::Write;
use crate::ops::linear::{BiasBackward, BiasForward};

pub(super) fn bias_forward(call: &BiasForward, v: &Views<'_>) {
    add_to_rows(v.read(call.bias), v.write(call.y));
}

pub(super) fn bias_backward(call: &BiasBackward, v: &Views<'_>) {
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
}
