//! Softmax and cross-entropy, with one warp per row.

use crate::cuda::launch::{Grid, launch};
use crate::cuda::view::{View, adds};
use crate::device::buffer::Write;
use crate::device::call::loss::{Call, TargetBuffer};
use crate::device::call::softmax;

/// Rows per block.
const ROWS: usize = 4;

fn rows_grid(rows: usize) -> Grid {
    Grid::new([rows.div_ceil(ROWS) as u32, 1, 1], [32 * ROWS as u32, 1, 1])
}

pub(in crate::cuda) fn softmax_forward(call: &softmax::Forward, v: &View<'_>) {
    let rows = v.len(call.y) / call.channels;
    let (x, y) = (v.at(call.x), v.at(call.y));
    // SAFETY: see `View`.
    unsafe {
        launch!(
            v.kernels,
            "softmax_forward",
            rows_grid(rows),
            x,
            y,
            rows as u32,
            call.channels as u32
        );
    }
}

pub(in crate::cuda) fn softmax_backward(call: &softmax::Backward, v: &View<'_>) {
    let rows = v.len(call.y) / call.channels;
    let (y, dy, dx, add) = (v.at(call.y), v.at(call.dy), v.at(call.dx), adds(call.write));
    let (grid, classes) = (rows_grid(rows), call.channels as u32);
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, "softmax_backward", grid, y, dy, dx, rows as u32, classes, add) }
}

/// Bytes of scratch memory: loss, top-1 and top-5 of every row.
pub(in crate::cuda) fn scratch(call: &Call) -> usize {
    call.rows * 3 * 4
}

pub(in crate::cuda) fn run(call: &Call, v: &View<'_>, found: u64) {
    let (classes_of, probabilities) = match call.target {
        TargetBuffer::Classes(target) => (v.at(target), 0),
        TargetBuffer::Probabilities(target) => (0, v.at(target)),
    };
    let (gradient, write) = match call.gradient {
        None => (0, 0i32),
        Some((gradient, Write::Set)) => (v.at(gradient), 1),
        Some((gradient, Write::Add)) => (v.at(gradient), 2),
    };
    let (logits, control, metrics) = (v.at(call.logits), v.at(call.control), v.at(call.metrics));
    let [rows, classes, segments, heads] =
        [call.rows, call.classes, call.segments, call.heads].map(|size| size as u32);
    let one_block = Grid::new([1; 3], [256, 1, 1]);
    // SAFETY: see `View`; the scratch memory has the size from `scratch`.
    unsafe {
        launch!(
            v.kernels,
            "cross_entropy",
            rows_grid(call.rows),
            logits,
            classes_of,
            probabilities,
            control,
            rows,
            classes,
            segments,
            heads,
            call.smoothing,
            call.weight,
            found,
            gradient,
            write,
        );
        launch!(
            v.kernels,
            "cross_entropy_finish",
            one_block,
            found,
            control,
            rows,
            segments,
            heads,
            metrics
        );
    }
}
