//! Batch norm in one cooperative launch (`kernels/norm_once.cu`): assignment of rows and channels
//! to blocks, and conditions for its use.
//!
//! It does not support joint statistics with parameters per segment, nor numbers of channels that
//! are not multiples of a vector. `norm.rs` handles these with three launches.

use super::running::Changing;
use crate::cuda::context::Context;
use crate::cuda::launch::{Grid, MESSAGE_BYTES, MOST_CHANNELS, MOST_SET_SUMS, launch};
use crate::cuda::properties::Properties;
use crate::cuda::view::{View, adds, vector};
use crate::device::buffer::InputGradient;
use crate::device::call::batch_norm::{Apply, Backward, Moments, NormShape, Residual, Statistics};

/// Largest number of threads per block, and rows that a thread prefetches, of the main tensors and
/// of a third tensor. As in the kernels.
const THREADS: usize = 512;
const DEPTH: usize = 8;
const AHEAD: usize = 4;

/// Bytes that a thread loads at once, bytes of a sum, and bytes of a message.
const PACK: usize = 16;
const SUM: usize = 4;
const MESSAGE: usize = 8;

/// Struct of the kernels: rows of a set, channels, distance between a thread's rows, rows of a
/// thread, rows kept in shared memory, channels that a block finishes.
#[repr(transparent)]
struct Division([u32; 6]);

/// Assignment of the rows of an activation to blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slabs {
    channels: usize,
    /// Number of statistics sets.
    sets: usize,
    /// Number of blocks that share the rows of a set.
    slabs: usize,
    /// Threads of a block: along channels, and along rows.
    threads: [usize; 2],
}

impl Slabs {
    /// Returns `None` if one launch does not support this shape or GPU.
    fn new(context: &Context, shape: &NormShape) -> Option<Self> {
        let Properties { multiprocessors, shared_bytes, .. } = context.properties;
        Self::choose(multiprocessors, shared_bytes, vector(context), shape)
    }

    /// Chooses for this many multiprocessors with this much shared memory, and threads that load
    /// `pack` channels at once.
    fn choose(blocks: usize, shared_bytes: usize, pack: usize, shape: &NormShape) -> Option<Self> {
        let (channels, sets, across) =
            (shape.channels, shape.statistic_sets(), shape.channels / pack);
        if sets != shape.segments || !channels.is_multiple_of(pack) || across > THREADS {
            return None;
        }
        let threads = [across, THREADS / across];
        let messages = MESSAGE_BYTES / (sets * 2 * channels * MESSAGE);
        let slabs = (blocks / sets).min(shape.rows.div_ceil(threads[1])).min(messages);
        let this = Self { channels, sets, slabs, threads };
        let room = |streams| this.room(shared_bytes, streams) > DEPTH / streams;
        (slabs > 0
            && channels <= MOST_CHANNELS
            && sets * channels * 2 <= MOST_SET_SUMS
            && room(1)
            && room(2))
        .then_some(this)
    }

    /// Bytes of one row of a block, for `streams` tensors.
    fn cell_bytes(&self, streams: usize) -> usize {
        self.threads[0] * self.threads[1] * PACK * streams
    }

    /// Bytes of shared memory after the rows: two sums per thread and channel, or rows of a third
    /// tensor.
    fn space_bytes(&self) -> usize {
        let sums = self.threads[1] * 2 * self.channels * SUM;
        sums.max(AHEAD * self.cell_bytes(1))
    }

    /// Number of rows of `streams` tensors that fit into the shared memory of a block.
    fn room(&self, shared_bytes: usize, streams: usize) -> usize {
        shared_bytes.saturating_sub(self.space_bytes()) / self.cell_bytes(streams)
    }

    /// Kernel argument and grid for keeping rows of `streams` tensors.
    fn launch(&self, context: &Context, shape: &NormShape, streams: usize) -> (Division, Grid) {
        let Self { channels, sets, slabs, threads: [across, down] } = *self;
        let room = self.room(context.properties.shared_bytes, streams);
        let (each, ring) = (slabs * down, DEPTH / streams);
        let count = shape.rows.div_ceil(each);
        let (kept, cells) = if count <= room { (count, count) } else { (room - ring, room) };
        let shared = (cells * self.cell_bytes(streams) + self.space_bytes()) as u32;
        let division =
            [shape.rows, channels, each, count, kept, channels.div_ceil(slabs)].map(|n| n as u32);
        let (blocks, threads) = ([slabs as u32, sets as u32, 1], [across as u32, down as u32, 1]);
        (Division(division), Grid { blocks, threads, shared })
    }
}

/// Returns true if statistics and normalisation can be one launch.
pub(in crate::cuda) fn fits(context: &Context, statistics: &Statistics, apply: &Apply) -> bool {
    let same = matches!(apply.moments, Moments::Batch { mean, .. } if mean == statistics.mean);
    same && Slabs::new(context, &statistics.shape).is_some()
}

/// Computes statistics and normalises. If `copy` is given, the input is also copied there.
pub(in crate::cuda) fn forward(call: &Statistics, apply: &Apply, copy: u64, v: &View<'_>) {
    let Some(slabs) = Slabs::new(v.context, &call.shape) else {
        unreachable!("`fits` was checked before")
    };
    let (division, grid) = slabs.launch(v.context, &call.shape, 1);
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
    let meeting = v.kernels.meeting();
    let (per_row, unbiased) =
        (1.0 / call.shape.rows as f64, call.shape.rows as f64 / (call.shape.rows as f64 - 1.0));
    // SAFETY: see `View`; messages, sums and tickets suffice for the chosen assignment.
    unsafe {
        launch!(together
            v.kernels, "norm_forward_once", grid, x, residual, y, copy, gamma, beta, mean, inverse, call.epsilon,
            running.rule, running.momentum, running.control, running.mean, running.variance, division, per_row,
            unbiased, parameter_sets, low, high, meeting,
        );
    }
}

/// Computes all gradients if one launch supports this call. Returns false otherwise.
pub(in crate::cuda) fn backward(call: &Backward, v: &View<'_>) -> bool {
    let Moments::Batch { mean, inverse } = call.moments else { return false };
    let Some(slabs) = Slabs::new(v.context, &call.shape) else { return false };
    let (division, grid) = slabs.launch(v.context, &call.shape, 2);
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
    let (meeting, per_row) = (v.kernels.meeting(), 1.0 / call.shape.rows as f32);
    // SAFETY: as above.
    unsafe {
        launch!(together
            v.kernels, "norm_backward_once", grid, x, dy, dx, gamma, beta, mean, inverse, dscale, dshift,
            add_parameters, add, division, per_row, parameter_sets, low, high, meeting,
        );
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::ops::batch_norm::Scope;

    /// Multiprocessors, and shared memory per block, of T4, RTX 4090, A100 and H200.
    const GPUS: [(usize, usize); 4] =
        [(40, 64 << 10), (128, 99 << 10), (108, 163 << 10), (132, 227 << 10)];

    fn shape(rows: usize, segments: usize, channels: usize) -> NormShape {
        NormShape { rows, segments, channels, statistics: Scope::Segment, parameters: Scope::Joint }
    }

    /// Every choice covers all rows, uses at most as many blocks as multiprocessors, and has room
    /// for messages and for a ring of rows.
    #[test]
    fn choices_fit_the_gpu() {
        let mut chosen = 0;
        for (blocks, shared) in GPUS {
            for (rows, segments) in
                [(1, 1), (7, 2), (8192, 1), (65_536, 2), (131_072, 1), (64, 200)]
            {
                for channels in (4..=4096).step_by(4) {
                    for pack in [4, 8] {
                        let shape = shape(rows, segments, channels);
                        let Some(it) = Slabs::choose(blocks, shared, pack, &shape) else {
                            continue;
                        };
                        chosen += 1;
                        let [across, down] = it.threads;
                        assert_eq!(across * pack, channels, "{it:?}");
                        assert!(it.sets * it.slabs <= blocks && it.slabs >= 1, "{it:?}");
                        assert!((it.slabs - 1) * down < rows, "a block without rows: {it:?}");
                        assert!(across * down <= THREADS && down >= 1, "{it:?}");
                        assert!(
                            it.sets * it.slabs * 2 * channels * MESSAGE <= MESSAGE_BYTES,
                            "{it:?}"
                        );
                        assert!(
                            it.room(shared, 1) > DEPTH && it.room(shared, 2) > DEPTH / 2,
                            "{it:?}"
                        );
                    }
                }
            }
        }
        assert!(chosen > 10_000, "{chosen}");
    }

    /// An H200 uses one launch for every batch norm of the paper's networks, and of ResNet-50 at
    /// 224 pixels.
    #[test]
    fn networks_take_one_launch() {
        for (rows, channels) in [
            (131_072, 16),
            (131_072, 160),
            (32_768, 320),
            (8192, 640),
            (8192, 448),
            (1_605_632, 64),
            (6272, 2048),
        ] {
            let it = Slabs::choose(132, 227 << 10, 8, &shape(rows, 1, channels));
            assert!(
                it.is_some_and(|it| it.slabs > 120 || it.slabs == rows.div_ceil(it.threads[1])),
                "{rows}×{channels}: {it:?}"
            );
        }
    }
}
