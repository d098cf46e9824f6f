//! Calls with one simple kernel each: sums, copies, activations, columns, biases.

use cudarc::driver::result;

use crate::cuda::buffer::fill;
use crate::cuda::launch::{Grid, launch};
use crate::cuda::named::Named;
use crate::cuda::view::{View, adds, variant, vector};
use crate::device::buffer::{BufferId, InputGradient};
use crate::device::call::add::{Copy, Fill, Sum};
use crate::device::call::conv::Epilogue;
use crate::device::call::{activation, concat, external, linear};
use crate::graph::ops::activation::Activation;

fn bounds(activation: Activation) -> (f32, f32) {
    activation.bounds()
}

pub(in crate::cuda) fn sum(call: &Sum, v: &View<'_>) {
    let (n, (low, high)) = (v.len(call.y), bounds(call.activation));
    let (lhs, rhs, y) = (v.at(call.lhs.unwrap_or(call.y)), v.at(call.rhs), v.at(call.y));
    let grid = v.kernels.flat(n.div_ceil(vector(v.context)));
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, "sum", grid, lhs, rhs, y, n as u64, low, high) }
}

pub(in crate::cuda) fn copy(call: &Copy, v: &View<'_>) {
    let (from, to) = (v.place(call.x), v.place(call.y));
    assert_eq!(from.bytes, to.bytes, "a copy does not change the width");
    let bytes = v.len(call.y) * to.bytes;
    // SAFETY: see `View`; the buffers do not overlap.
    let copied = unsafe {
        result::memcpy_dtod_async(to.pointer, from.pointer, bytes, v.context.raw_stream())
    };
    v.context.note(copied.named("copying on the GPU"));
}

pub(in crate::cuda) fn zero(call: &Fill, v: &View<'_>) {
    let place = v.place(call.y);
    v.context.note(fill(v.context, place.pointer, v.len(call.y) * place.bytes));
}

pub(in crate::cuda) fn activation_forward(call: &activation::Forward, v: &View<'_>) {
    let (n, (low, high)) = (v.len(call.y), bounds(call.activation));
    let (x, y) = (v.at(call.x.unwrap_or(call.y)), v.at(call.y));
    let grid = v.kernels.flat(n.div_ceil(vector(v.context)));
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, "activation_forward", grid, x, y, n as u64, low, high) }
}

pub(in crate::cuda) fn activation_backward(call: &activation::Backward, v: &View<'_>) {
    let (n, (low, high)) = (v.len(call.y), bounds(call.activation));
    let (dx, add) = match call.dx {
        InputGradient::InPlace => (call.dy, 0),
        InputGradient::To(dx, write) => (dx, adds(write)),
    };
    let (y, dy, dx) = (v.at(call.y), v.at(call.dy), v.at(dx));
    let grid = v.kernels.flat(n.div_ceil(vector(v.context)));
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, "activation_backward", grid, y, dy, dx, n as u64, low, high, add) }
}

pub(in crate::cuda) fn external(call: &external::Call, v: &View<'_>) {
    let (n, add) = (v.len(call.dx), adds(call.write));
    let (x, dx) = (v.at(call.x), v.at(call.dx));
    let grid = v.kernels.flat(n.div_ceil(vector(v.context)));
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, "scaled", grid, x, dx, n as u64, call.weight, add) }
}

pub(in crate::cuda) fn concat_forward(call: &concat::Forward, v: &View<'_>) {
    columns(call.columns, v.at(call.x), v.at(call.y), v.len(call.x), 1, 0, v);
}

pub(in crate::cuda) fn concat_backward(call: &concat::Backward, v: &View<'_>) {
    columns(call.columns, v.at(call.dy), v.at(call.dx), v.len(call.dx), 0, adds(call.write), v);
}

fn columns(
    columns: concat::Columns,
    from: u64,
    to: u64,
    narrow: usize,
    widen: i32,
    add: i32,
    v: &View<'_>,
) {
    let concat::Columns { start, width, of } = columns;
    let (name, each) = variant(v.context, ["columns_v", "columns_1"], &[start, width, of]);
    let rows = (narrow / width) as u64;
    let grid = v.kernels.flat(narrow / each);
    let (start, width, of) = (start as u32, width as u32, of as u32);
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, name, grid, from, to, rows, start, width, of, widen, add) }
}

pub(in crate::cuda) fn bias_forward(call: &linear::BiasForward, v: &View<'_>) {
    let n = v.len(call.y);
    let (bias, y) = (v.at(call.bias), v.at(call.y));
    let grid = v.kernels.flat(n);
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, "bias_forward", grid, bias, y, n as u64, call.channels as u32) }
}

/// Computes `y = act(y + bias)` over all pixels.
pub(in crate::cuda) fn finish(epilogue: &Epilogue, y: BufferId, v: &View<'_>) {
    let (n, (low, high)) = (v.len(y), bounds(epilogue.activation));
    let (channels, bias, y) = (v.len(epilogue.bias), v.at(epilogue.bias), v.at(y));
    let (name, each) = variant(v.context, ["finish_v", "finish_1"], &[channels]);
    let grid = v.kernels.flat(n / each);
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, name, grid, bias, y, n as u64, channels as u32, low, high) }
}

pub(in crate::cuda) fn bias_backward(call: &linear::BiasBackward, v: &View<'_>) {
    let rows = v.len(call.dy) / call.channels;
    let (dy, dbias, add) = (v.at(call.dy), v.at(call.dbias), adds(call.write));
    let grid = Grid::new([call.channels.div_ceil(32) as u32, 1, 1], [32, 8, 1]);
    let channels = call.channels as u32;
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, "bias_backward", grid, dy, dbias, rows as u32, channels, add) }
}
