//! Batch norm in one launch (`kernels/norm_once.cu`): who gets which rows and channels, and when that way can be taken.
//!
//! Not for parameters of segments whose statistics are joint, nor for odd numbers of channels; `norm.rs` has three launches
//! for those.

use super::context::Context;
use super::launch::{Grid, SUM_BYTES, launch};
use super::norm::Changing;
use super::view::{View, adds, vector};
use crate::ops::batch_norm::{Apply, Backward, Moments, NormShape, Residual, Statistics};
use crate::program::InputGradient;

/// Threads of a block at most, and copies that a thread has under way: as in the kernels.
const THREADS: usize = 512;
const DEPTH: usize = 8;

/// Shared memory that holds a ring of cells, one row more, and sums.
const LEAST_SHARED: usize = 96 << 10;

/// What the kernels have of it without asking, rounded up.
const STATIC_SHARED: usize = 64;

/// Bytes that a thread takes at once.
const PACK: usize = 16;

/// What a slab more costs in adding up sums, per load and thread, and how fast rows are read; H200, microseconds. Only
/// the choice of slices depends on it.
const LOAD_MICROSECONDS: f64 = 0.18;
const BYTES_PER_MICROSECOND: f64 = 4.0e6;

/// Bytes that memory gives at least.
const GRANULE: usize = 64;

/// Rows of a set, channels, channels of a slice, slices, slabs, sets, rows kept: a struct of the kernels.
#[repr(transparent)]
struct Division([u32; 7]);

/// How the channels and rows of an activation are given to blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slices {
    /// Channels of a slice.
    width: usize,
    slices: usize,
    /// Sets of statistics.
    sets: usize,
    /// Blocks that share the rows of a slice of a set.
    slabs: usize,
    /// Threads of a block: channels across, rows down.
    threads: [usize; 2],
}

impl Slices {
    /// None where one launch is not for this shape.
    fn new(context: &Context, shape: &NormShape) -> Option<Self> {
        let (channels, pack) = (shape.channels, vector(context));
        let room = context.properties.shared_bytes >= LEAST_SHARED;
        let sets = shape.statistic_sets();
        if sets != shape.segments || !channels.is_multiple_of(pack) || !room {
            return None;
        }
        let (blocks, packs) = (context.properties.multiprocessors, channels / pack);
        let all = (1..=packs.min(blocks / sets)).filter(|n| packs.is_multiple_of(*n) && packs / n <= THREADS);
        let slices = all.map(|slices| {
            let across = packs / slices;
            let threads = [across, THREADS / across];
            let slabs = (blocks / (slices * sets)).min(shape.rows.div_ceil(threads[1])).max(1);
            Self { width: channels / slices, slices, sets, slabs, threads }
        });
        let slices = slices.filter(|slices| slices.sum_bytes() <= SUM_BYTES);
        slices.min_by(|a, b| a.cost(blocks, shape).total_cmp(&b.cost(blocks, shape)))
    }

    /// Microseconds, roughly: reading the rows, in granules where a slice is part of a row, and adding up the slabs' sums.
    fn cost(&self, blocks: usize, shape: &NormShape) -> f64 {
        let bytes = PACK * self.threads[0];
        let granules = match self.slices {
            1 => 1.0,
            _ if bytes.is_multiple_of(GRANULE) => 1.0,
            _ => (bytes.div_ceil(GRANULE) * GRANULE) as f64 / bytes as f64 + 0.2,
        };
        let all = (self.sets * shape.rows * self.slices * bytes) as f64;
        let busy = (self.sets * self.slabs * self.slices) as f64 / blocks as f64;
        let loads = (self.slabs * 2 * self.width) as f64 / THREADS as f64;
        all * granules / busy.min(1.0) / BYTES_PER_MICROSECOND + loads * LOAD_MICROSECONDS
    }

    /// Bytes of the slabs' sums, and then of the sets'.
    fn sum_bytes(&self) -> usize {
        self.sets * self.slices * (self.slabs + 1) * 2 * self.width * 4
    }

    /// What the kernel is told of all this, and the launch, for keeping rows of `streams` tensors.
    fn launch(&self, context: &Context, shape: &NormShape, streams: usize) -> (Division, Grid) {
        let [across, down] = self.threads;
        let cell = across * down * PACK * streams;
        // Half of the threads' sums, then the slabs' in f64, then three lines of a channel each.
        let (columns, half) = (2 * self.width, down.div_ceil(2));
        let parts = (across * down / columns).max(1);
        let sums = (half * columns * 4).max(parts * columns * 8).max(columns * 8 + 3 * self.width * 4);
        let room = (context.properties.shared_bytes - STATIC_SHARED - sums) / cell;
        let (count, ring) = (shape.rows.div_ceil(self.slabs * down), DEPTH / streams);
        let (kept, cells) = if count <= room { (count, count) } else { (room - ring, room) };
        let shared = (cells * cell + sums) as u32;
        let blocks = [(self.sets * self.slices * self.slabs) as u32, 1, 1];
        let Self { width, slices, sets, slabs, .. } = *self;
        let division = [shape.rows, shape.channels, width, slices, slabs, sets, kept].map(|n| n as u32);
        (Division(division), Grid { blocks, threads: [across as u32, down as u32, 1], shared })
    }
}

/// Whether statistics and what is done with them can be one launch.
pub(super) fn fits(context: &Context, statistics: &Statistics, apply: &Apply) -> bool {
    let same = matches!(apply.moments, Moments::Batch { mean, .. } if mean == statistics.mean);
    same && Slices::new(context, &statistics.shape).is_some()
}

/// Statistics and their application; `copy` also gets the input, where given.
pub(super) fn forward(call: &Statistics, apply: &Apply, copy: u64, v: &View<'_>) {
    let Some(slices) = Slices::new(v.context, &call.shape) else { unreachable!("asked for where it fits") };
    let (division, grid) = slices.launch(v.context, &call.shape, 1);
    let (x, y) = (v.at(call.x), v.at(apply.y));
    let residual = match apply.residual {
        None => 0,
        Some(Residual::AtDestination) => y,
        Some(Residual::From(from)) => v.at(from),
    };
    let running = Changing::new(call, v);
    let (gamma, beta) = (v.at(apply.affine.scale), v.at(apply.affine.shift));
    let (mean, inverse) = (v.at(call.mean), v.at(call.inverse));
    let (low, high) = apply.activation.bounds();
    let parameter_sets = call.shape.parameter_sets() as u32;
    let [barriers, tickets, sums] = v.kernels.meeting();
    // SAFETY: see `View`; the sums fit, and there are no more blocks than multiprocessors, so no more groups than barriers.
    unsafe {
        launch!(together
            v.kernels, "norm_forward_once", grid, x, residual, y, copy, gamma, beta, mean, inverse, call.epsilon,
            running.rule, running.momentum, running.control, running.mean, running.variance, division, parameter_sets, low,
            high, sums, barriers, tickets,
        );
    }
}

/// All gradients, if one launch is for this call.
pub(super) fn backward(call: &Backward, v: &View<'_>) -> bool {
    let Moments::Batch { mean, inverse } = call.moments else { return false };
    let Some(slices) = Slices::new(v.context, &call.shape) else { return false };
    let (division, grid) = slices.launch(v.context, &call.shape, 2);
    let (x, dy) = (v.at(call.x), v.at(call.dy));
    let (dx, add) = match call.dx {
        None => (0, 0),
        Some(InputGradient::InPlace) => (dy, 0),
        Some(InputGradient::To(dx, write)) => (v.at(dx), adds(write)),
    };
    let (gamma, beta) = (v.at(call.affine.scale), v.at(call.affine.shift));
    let (mean, inverse) = (v.at(mean), v.at(inverse));
    let (dscale, dshift, add_parameters) = (v.at(call.dscale), v.at(call.dshift), adds(call.write));
    let (low, high) = call.activation.bounds();
    let parameter_sets = call.shape.parameter_sets() as u32;
    let [barriers, tickets, sums] = v.kernels.meeting();
    // SAFETY: as above.
    unsafe {
        launch!(together
            v.kernels, "norm_backward_once", grid, x, dy, dx, gamma, beta, mean, inverse, dscale, dshift,
            add_parameters, add, division, parameter_sets, low, high, sums, barriers, tickets,
        );
    }
    true
}
