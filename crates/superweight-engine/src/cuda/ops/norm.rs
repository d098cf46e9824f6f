//! Batch norm and channel scale: assignment of rows and channels to threads. Most batch norms use
//! `norm_once` instead.

use super::norm_once;
use super::running::Changing;
use crate::cuda::context::Context;
use crate::cuda::launch::{Grid, THREADS, launch};
use crate::cuda::view::{View, adds, variant, vector};
use crate::device::buffer::InputGradient;
use crate::device::call::batch_norm::{
    Affine, Apply, Backward, Moments, NormShape, Residual, Statistics,
};
use crate::device::call::channel_scale;

/// Smallest number of rows that a thread sums. With fewer rows, partial sums would be a notable
/// part of the work.
const ROWS_EACH: usize = 8;
/// Blocks per multiprocessor: as many as the registers allow, so that all blocks run at once.
const BLOCKS: usize = 3;

/// Grid of blocks of (channels, rows) over `sets` of `rows`.
fn row_grid(context: &Context, rows: usize, channels: usize, sets: usize, each: usize) -> Grid {
    let packs = channels / each;
    let across = packs.min(THREADS as usize);
    let down = (THREADS as usize / across).max(1);
    let tiles = packs.div_ceil(across);
    let wanted = (context.properties.multiprocessors * BLOCKS).div_ceil(tiles * sets);
    let blocks = rows.div_ceil(down * ROWS_EACH).clamp(1, wanted.max(1));
    Grid::new([blocks as u32, tiles as u32, sets as u32], [across as u32, down as u32, 1])
}

/// The same grid with shared memory for a block's sums: two per channel and row of threads.
fn sum_grid(context: &Context, rows: usize, channels: usize, sets: usize) -> Grid {
    let each = if channels.is_multiple_of(vector(context)) { vector(context) } else { 1 };
    let grid = row_grid(context, rows, channels, sets, each);
    Grid { shared: grid.threads[1] * 2 * grid.threads[0] * each as u32 * 4, ..grid }
}

/// Bytes of partial sums.
fn partial_bytes(grid: Grid, channels: usize) -> usize {
    grid.blocks[0] as usize * grid.blocks[2] as usize * 2 * channels * 4
}

/// 32 channels per block with 32 threads each: `PARTS` in `kernels/norm.cu`.
fn finish_grid(channels: usize) -> Grid {
    Grid::new([channels.div_ceil(32) as u32, 1, 1], [32, 32, 1])
}

fn statistics_grid(context: &Context, call: &Statistics) -> (Grid, usize) {
    let sets = call.shape.statistic_sets();
    let rows = call.shape.rows * call.shape.segments / sets;
    (sum_grid(context, rows, call.shape.channels, sets), rows)
}

pub(in crate::cuda) fn statistics_scratch(context: &Context, call: &Statistics) -> usize {
    partial_bytes(statistics_grid(context, call).0, call.shape.channels)
}

pub(in crate::cuda) fn statistics(call: &Statistics, v: &View<'_>, scratch: u64) {
    let (grid, rows) = statistics_grid(v.context, call);
    let (c, sets) = (call.shape.channels, call.shape.statistic_sets() as u32);
    let (x, rows, channels) = (v.at(call.x), rows as u32, c as u32);
    let (name, _) = variant(v.context, ["norm_statistics_v", "norm_statistics_1"], &[c]);
    let running = Changing::new(call, v);
    let running_sets = call.shape.running_sets() as u32;
    let (mean, inverse) = (v.at(call.mean), v.at(call.inverse));
    // SAFETY: see `View`; the scratch memory has the size from `statistics_scratch`.
    unsafe {
        launch!(v.kernels, name, grid, x, scratch, rows, channels);
        launch!(
            v.kernels,
            "norm_statistics_finish",
            finish_grid(c),
            x,
            scratch,
            grid.blocks[0],
            sets,
            rows,
            channels,
            call.epsilon,
            mean,
            inverse,
            running.rule,
            running.momentum,
            running.control,
            running.mean,
            running.variance,
            running_sets,
        );
    }
}

/// Moments as kernel arguments: addresses of μ, the second moment, γ and β. ε is −1 if 1/σ is
/// given.
struct MomentArguments {
    mean: u64,
    second: u64,
    gamma: u64,
    beta: u64,
    epsilon: f32,
    statistic_sets: u32,
    parameter_sets: u32,
}

impl MomentArguments {
    fn new(shape: &NormShape, moments: &Moments, affine: &Affine, v: &View<'_>) -> Self {
        let (mean, second, epsilon, sets) = match *moments {
            Moments::Batch { mean, inverse } => (mean, inverse, -1.0, shape.statistic_sets()),
            Moments::Running { mean, variance, epsilon } => {
                (mean, variance, epsilon, shape.running_sets())
            }
        };
        Self {
            mean: v.at(mean),
            second: v.at(second),
            gamma: v.at(affine.scale),
            beta: v.at(affine.shift),
            epsilon,
            statistic_sets: sets as u32,
            parameter_sets: shape.parameter_sets() as u32,
        }
    }
}

pub(in crate::cuda) fn apply(call: &Apply, v: &View<'_>) {
    let (rows, c, segments) = (call.shape.rows, call.shape.channels, call.shape.segments);
    let m = MomentArguments::new(&call.shape, &call.moments, &call.affine, v);
    let (low, high) = call.activation.bounds();
    let (x, y) = (v.at(call.x.unwrap_or(call.y)), v.at(call.y));
    let (names, residual) = match call.residual {
        None => (["norm_apply_v", "norm_apply_1"], 0),
        Some(Residual::AtDestination) => (["norm_apply_residual_v", "norm_apply_residual_1"], y),
        Some(Residual::From(from)) => {
            (["norm_apply_residual_v", "norm_apply_residual_1"], v.at(from))
        }
    };
    let (name, each) = variant(v.context, names, &[c]);
    let grid = row_grid(v.context, rows, c, segments, each);
    let (rows, channels) = (rows as u32, c as u32);
    // SAFETY: see `View`.
    unsafe {
        launch!(
            v.kernels,
            name,
            grid,
            x,
            residual,
            y,
            m.mean,
            m.second,
            m.gamma,
            m.beta,
            m.epsilon,
            m.statistic_sets,
            m.parameter_sets,
            rows,
            channels,
            low,
            high,
        );
    }
}

/// Bytes of scratch memory: partial sums, their sums, and the two coefficients of `dx`.
pub(in crate::cuda) fn backward_scratch(context: &Context, call: &Backward) -> usize {
    let shape = &call.shape;
    let grid = sum_grid(context, shape.rows, shape.channels, shape.segments);
    partial_bytes(grid, shape.channels) + 2 * (2 * shape.segments * shape.channels * 4)
}

pub(in crate::cuda) fn backward(call: &Backward, v: &View<'_>, scratch: u64) {
    if norm_once::backward(call, v) {
        return;
    }
    let shape = &call.shape;
    let (c, segments) = (shape.channels, shape.segments);
    let grid = sum_grid(v.context, shape.rows, c, segments);
    let sums = scratch + partial_bytes(grid, c) as u64;
    let lines = sums + (2 * segments * c * 4) as u64;
    let m = MomentArguments::new(shape, &call.moments, &call.affine, v);
    let (low, high) = call.activation.bounds();
    let (x, dy, rows, channels) = (v.at(call.x), v.at(call.dy), shape.rows as u32, c as u32);
    let (name, _) = variant(v.context, ["norm_sums_v", "norm_sums_1"], &[c]);
    let (dscale, dshift, add) = (v.at(call.dscale), v.at(call.dshift), adds(call.write));
    // SAFETY: see `View`; the scratch memory has the size from `backward_scratch`.
    unsafe {
        launch!(
            v.kernels,
            name,
            grid,
            x,
            dy,
            m.mean,
            m.second,
            m.gamma,
            m.beta,
            m.epsilon,
            m.statistic_sets,
            m.parameter_sets,
            scratch,
            rows,
            channels,
            low,
            high,
        );
        launch!(
            v.kernels,
            "norm_sums_finish",
            finish_grid(c),
            scratch,
            grid.blocks[0],
            segments as u32,
            m.mean,
            m.second,
            m.gamma,
            m.beta,
            m.epsilon,
            m.statistic_sets,
            m.parameter_sets,
            rows,
            channels,
            dscale,
            dshift,
            add,
            sums,
            lines,
        );
    }
    let (dx, add) = match call.dx {
        None => return,
        Some(InputGradient::InPlace) => (dy, 0),
        Some(InputGradient::To(dx, write)) => (v.at(dx), adds(write)),
    };
    let (name, each) = variant(v.context, ["norm_gradient_v", "norm_gradient_1"], &[c]);
    let grid = row_grid(v.context, shape.rows, c, segments, each);
    // SAFETY: as above.
    unsafe {
        launch!(
            v.kernels,
            name,
            grid,
            x,
            dy,
            dx,
            m.mean,
            m.second,
            m.gamma,
            m.beta,
            m.epsilon,
            m.statistic_sets,
            m.parameter_sets,
            lines,
            rows,
            channels,
            low,
            high,
            add,
        );
    }
}

pub(in crate::cuda) fn scale_forward(call: &channel_scale::Forward, v: &View<'_>) {
    let (x, y) = (v.at(call.x.unwrap_or(call.y)), v.at(call.y));
    scale_rows(&call.shape, x, v.at(call.scale), y, 0, v);
}

fn scale_rows(
    shape: &channel_scale::ScaleShape,
    x: u64,
    scale: u64,
    y: u64,
    add: i32,
    v: &View<'_>,
) {
    let (name, each) = variant(v.context, ["scale_rows_v", "scale_rows_1"], &[shape.channels]);
    let grid = row_grid(v.context, shape.rows, shape.channels, shape.segments, each);
    let (rows, channels) = (shape.rows as u32, shape.channels as u32);
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, name, grid, x, scale, y, rows, channels, add) }
}

pub(in crate::cuda) fn scale_backward_scratch(
    context: &Context,
    call: &channel_scale::Backward,
) -> usize {
    let shape = &call.shape;
    partial_bytes(sum_grid(context, shape.rows, shape.channels, shape.segments), shape.channels)
}

pub(in crate::cuda) fn scale_backward(call: &channel_scale::Backward, v: &View<'_>, scratch: u64) {
    let shape = &call.shape;
    let grid = sum_grid(v.context, shape.rows, shape.channels, shape.segments);
    let (name, _) = variant(v.context, ["scale_sums_v", "scale_sums_1"], &[shape.channels]);
    let (x, dy, dscale) = (v.at(call.x), v.at(call.dy), v.at(call.dscale));
    let (rows, channels, segments) =
        (shape.rows as u32, shape.channels as u32, shape.segments as u32);
    let (blocks, add) = (grid.blocks[0], adds(call.write));
    let finish = finish_grid(shape.channels);
    // SAFETY: see `View`; the scratch memory has the size from `scale_backward_scratch`.
    unsafe {
        launch!(v.kernels, name, grid, x, dy, scratch, rows, channels);
        launch!(
            v.kernels,
            "scale_sums_finish",
            finish,
            scratch,
            blocks,
            segments,
            channels,
            dscale,
            add
        );
    }
    if let Some((dx, write)) = call.dx {
        scale_rows(shape, dy, v.at(call.scale), v.at(dx), adds(write), v);
    }
}
