//! Batch norm in one launch (`kernels/norm_once.cu`): who gets which rows and channels, and when that way can be taken.
//!
//! Not for parameters of segments whose statistics are joint, nor for odd numbers of channels; `norm.rs` has three launches
//! for those.

use super::running::Changing;
use crate::cuda::context::Context;
use crate::cuda::launch::{Grid, LETTER_BYTES, MOST_CHANNELS, MOST_SET_SUMS, launch};
use crate::cuda::properties::Properties;
use crate::cuda::view::{View, adds, vector};
use crate::device::buffer::InputGradient;
use crate::device::call::batch_norm::{Apply, Backward, Moments, NormShape, Residual, Statistics};

/// Threads of a block at most, copies of rows that a thread has under way, and of rows of a third tensor: as in the kernels.
const THREADS: usize = 512;
const DEPTH: usize = 8;
const AHEAD: usize = 4;

/// Bytes that a thread takes at once, and of a number of a sum and of a letter.
const PACK: usize = 16;
const SUM: usize = 4;
const LETTER: usize = 8;

/// Rows of a set, channels, rows to a thread's next one, rows of a thread, rows kept, channels that a block decides on: a
/// struct of the kernels.
#[repr(transparent)]
struct Division([u32; 6]);

/// How the rows of an activation are given to blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slabs {
    channels: usize,
    /// Sets of statistics.
    sets: usize,
    /// Blocks that share the rows of a set.
    slabs: usize,
    /// Threads of a block: channels across, rows down.
    threads: [usize; 2],
}

impl Slabs {
    /// None where one launch is not for this shape, or not for this GPU.
    fn new(context: &Context, shape: &NormShape) -> Option<Self> {
        let Properties { multiprocessors, shared_bytes, .. } = context.properties;
        Self::choose(multiprocessors, shared_bytes, vector(context), shape)
    }

    /// For this many multiprocessors with this much shared memory, and threads that take `pack` channels at once.
    fn choose(blocks: usize, shared_bytes: usize, pack: usize, shape: &NormShape) -> Option<Self> {
        let (channels, sets, across) =
            (shape.channels, shape.statistic_sets(), shape.channels / pack);
        if sets != shape.segments || !channels.is_multiple_of(pack) || across > THREADS {
            return None;
        }
        let threads = [across, THREADS / across];
        let letters = LETTER_BYTES / (sets * 2 * channels * LETTER);
        let slabs = (blocks / sets).min(shape.rows.div_ceil(threads[1])).min(letters);
        let this = Self { channels, sets, slabs, threads };
        let room = |streams| this.room(shared_bytes, streams) > DEPTH / streams;
        (slabs > 0
            && channels <= MOST_CHANNELS
            && sets * channels * 2 <= MOST_SET_SUMS
            && room(1)
            && room(2))
        .then_some(this)
    }

    /// Bytes of a block's row of `streams` tensors.
    fn cell_bytes(&self, streams: usize) -> usize {
        self.threads[0] * self.threads[1] * PACK * streams
    }

    /// Bytes of shared memory behind the rows: two sums per thread and channel, or cells of a third tensor.
    fn space_bytes(&self) -> usize {
        let sums = self.threads[1] * 2 * self.channels * SUM;
        sums.max(AHEAD * self.cell_bytes(1))
    }

    /// Rows of `streams` tensors that a block has room for.
    fn room(&self, shared_bytes: usize, streams: usize) -> usize {
        shared_bytes.saturating_sub(self.space_bytes()) / self.cell_bytes(streams)
    }

    /// What the kernel is told of all this, and the launch, for keeping rows of `streams` tensors.
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

/// Whether statistics and what is done with them can be one launch.
pub(in crate::cuda) fn fits(context: &Context, statistics: &Statistics, apply: &Apply) -> bool {
    let same = matches!(apply.moments, Moments::Batch { mean, .. } if mean == statistics.mean);
    same && Slabs::new(context, &statistics.shape).is_some()
}

/// Statistics and their application; `copy` also gets the input, where given.
pub(in crate::cuda) fn forward(call: &Statistics, apply: &Apply, copy: u64, v: &View<'_>) {
    let Some(slabs) = Slabs::new(v.context, &call.shape) else {
        unreachable!("asked for where it fits")
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
    // SAFETY: see `View`; letters, sums and tickets are enough for what was chosen.
    unsafe {
        launch!(together
            v.kernels, "norm_forward_once", grid, x, residual, y, copy, gamma, beta, mean, inverse, call.epsilon,
            running.rule, running.momentum, running.control, running.mean, running.variance, division, per_row,
            unbiased, parameter_sets, low, high, meeting,
        );
    }
}

/// All gradients, if one launch is for this call.
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

    /// Shared memory of a block: T4, RTX 4090, A100, H200.
    const GPUS: [(usize, usize); 4] =
        [(40, 64 << 10), (128, 99 << 10), (108, 163 << 10), (132, 227 << 10)];

    fn shape(rows: usize, segments: usize, channels: usize) -> NormShape {
        NormShape { rows, segments, channels, statistics: Scope::Segment, parameters: Scope::Joint }
    }

    /// Whatever is chosen has every row, no more blocks than multiprocessors, letters for all, and room for a ring and a row.
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
                        assert!((it.slabs - 1) * down < rows, "a slab without rows: {it:?}");
                        assert!(across * down <= THREADS && down >= 1, "{it:?}");
                        assert!(
                            it.sets * it.slabs * 2 * channels * LETTER <= LETTER_BYTES,
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

    /// An H200 takes one launch for every norm of the paper's networks, and of ResNet-50 at 224 pixels.
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
