//! Pooling.

use crate::cuda::launch::launch;
use crate::cuda::view::{View, adds, variant};
use crate::device::call::pool::{Backward, Forward, GlobalBackward, GlobalForward, PoolShape};
use crate::graph::ops::pool::PoolKind;

/// Sizes in the order of the kernels' arguments: input, output, window, stride, padding.
fn sizes(s: &PoolShape) -> [u32; 10] {
    let w = &s.window;
    let pairs = [s.input, s.output, w.kernel, w.stride, w.padding];
    std::array::from_fn(|i| pairs[i / 2][i % 2] as u32)
}

fn share(s: &PoolShape) -> f32 {
    1.0 / (s.window.kernel[0] * s.window.kernel[1]) as f32
}

pub(in crate::cuda) fn forward(call: &Forward, v: &View<'_>) {
    let n = v.len(call.y);
    let (x, y, positions) = (v.at(call.x), v.at(call.y), v.at_some(call.positions));
    let [h, w, oh, ow, kh, kw, sh, sw, ph, pw] = sizes(&call.shape);
    let (channels, max) =
        (call.shape.channels as u32, i32::from(call.shape.window.kind == PoolKind::Max));
    let (grid, share) = (v.kernels.flat(n), share(&call.shape));
    // SAFETY: see `View`.
    unsafe {
        launch!(
            v.kernels,
            "pool_forward",
            grid,
            x,
            y,
            positions,
            n as u64,
            channels,
            h,
            w,
            oh,
            ow,
            kh,
            kw,
            sh,
            sw,
            ph,
            pw,
            max,
            share
        );
    }
}

pub(in crate::cuda) fn backward(call: &Backward, v: &View<'_>) {
    let n = v.len(call.dx);
    let (dy, positions, dx) = (v.at(call.dy), v.at_some(call.positions), v.at(call.dx));
    let [h, w, oh, ow, kh, kw, sh, sw, ph, pw] = sizes(&call.shape);
    let channels = call.shape.channels as u32;
    let (grid, share, add) = (v.kernels.flat(n), share(&call.shape), adds(call.write));
    // SAFETY: see `View`.
    unsafe {
        launch!(
            v.kernels,
            "pool_backward",
            grid,
            dy,
            positions,
            dx,
            n as u64,
            channels,
            h,
            w,
            oh,
            ow,
            kh,
            kw,
            sh,
            sw,
            ph,
            pw,
            share,
            add
        );
    }
}

pub(in crate::cuda) fn global_forward(call: &GlobalForward, v: &View<'_>) {
    let (name, each) =
        variant(v.context, ["global_forward_v", "global_forward_1"], &[call.channels]);
    let images = v.len(call.y) / call.channels;
    let grid = v.kernels.flat(images * call.channels / each);
    let (x, y, pixels, channels) =
        (v.at(call.x), v.at(call.y), call.pixels as u32, call.channels as u32);
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, name, grid, x, y, images as u64, pixels, channels) }
}

pub(in crate::cuda) fn global_backward(call: &GlobalBackward, v: &View<'_>) {
    let (name, each) =
        variant(v.context, ["global_backward_v", "global_backward_1"], &[call.channels]);
    let images = v.len(call.dy) / call.channels;
    let grid = v.kernels.flat(v.len(call.dx) / each);
    let (dy, dx, pixels, channels) =
        (v.at(call.dy), v.at(call.dx), call.pixels as u32, call.channels as u32);
    let add = adds(call.write);
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, name, grid, dy, dx, images as u64, pixels, channels, add) }
}
