//! Batch norm in one launch (`kernels/norm_once.cu`): who gets which rows and channels, and when that way can be taken.
//!
//! Not for parameters of segments whose statistics are joint, nor for odd numbers of channels; `norm.rs` has three launches
//! for those.

use super::context::{Context, Properties};
use super::launch::{Grid, LETTER_BYTES, SET_SUM_BYTES, launch};
use super::norm::Changing;
use super::view::{View, adds, vector};
use crate::ops::batch_norm::{Apply, Backward, Moments, NormShape, Residual, Statistics};
use crate::program::InputGradient;

/// Threads of a block at most, and copies that a thread has under way: as in the kernels.
const THREADS: usize = 512;
const DEPTH: usize = 8;

/// What the kernels have of it without asking, rounded up.
const STATIC_SHARED: usize = 64;

/// Bytes that a thread takes at once.
const PACK: usize = 16;

/// What a slab more costs in adding up sums, per load and thread, and how fast rows are read; H200, microseconds. Only
/// the choice of slices depends on it.
const LOAD_MICROSECONDS: f64 = 0.18;
const BYTES_PER_MICROSECOND: f64 = 4.0e6;

/// Bytes of a line of the cache, and how much slower rows are read in halves of lines (forward 1.0, backward adding to dx
/// 1.3) and in other pieces, of which less than half a line is read as half a line (docs/notes/batch-norm-on-a-gpu.md).
const LINE: usize = 128;
const HALF_LINES: f64 = 1.25;
const ODD_PIECES: f64 = 1.5;

/// Threads that add rows by themselves before they write.
const WARP: usize = 32;

/// Rows of a set, channels, channels of a slice, rows to a thread's next one, rows of a thread, rows kept: a struct of the
/// kernels.
#[repr(transparent)]
struct Division([u32; 6]);

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
    /// None where one launch is not for this shape, or not for this GPU.
    fn new(context: &Context, shape: &NormShape) -> Option<Self> {
        let Properties { multiprocessors, shared_bytes, .. } = context.properties;
        Self::choose(multiprocessors, shared_bytes, vector(context), shape)
    }

    /// For this many multiprocessors with this much shared memory, and threads that take `pack` channels at once.
    fn choose(blocks: usize, shared_bytes: usize, pack: usize, shape: &NormShape) -> Option<Self> {
        let (channels, sets) = (shape.channels, shape.statistic_sets());
        if sets != shape.segments || !channels.is_multiple_of(pack) || sets * channels * 8 > SET_SUM_BYTES {
            return None;
        }
        let packs = channels / pack;
        let all = (1..=packs.min(blocks / sets)).filter(|n| packs.is_multiple_of(*n) && packs / n <= THREADS);
        let slices = all.map(|slices| {
            let across = packs / slices;
            let threads = [across, THREADS / across];
            let slabs = (blocks / (slices * sets)).min(shape.rows.div_ceil(threads[1])).max(1);
            Self { width: channels / slices, slices, sets, slabs, threads }
        });
        let fits = |slices: &Self| {
            let room = |streams| slices.room(shared_bytes, streams) > DEPTH / streams;
            slices.letter_bytes() <= LETTER_BYTES && room(1) && room(2)
        };
        let slices = slices.filter(fits);
        slices.min_by(|a, b| a.cost(blocks, shape).total_cmp(&b.cost(blocks, shape)))
    }

    /// Microseconds, roughly: reading the rows, slower where a slice is part of a line, and adding up the slabs' sums.
    fn cost(&self, blocks: usize, shape: &NormShape) -> f64 {
        let bytes = PACK * self.threads[0];
        let slower = match self.slices {
            1 => 1.0,
            _ if bytes.is_multiple_of(LINE) => 1.0,
            _ if bytes.is_multiple_of(LINE / 2) => HALF_LINES,
            _ => ODD_PIECES.max((LINE / 2) as f64 / bytes as f64),
        };
        let all = (self.sets * shape.rows * self.slices * bytes) as f64;
        let busy = (self.sets * self.slabs * self.slices) as f64 / blocks as f64;
        let loads = (self.slabs * 2 * self.width) as f64 / THREADS as f64;
        all * slower / busy.min(1.0) / BYTES_PER_MICROSECOND + loads * LOAD_MICROSECONDS
    }

    /// Bytes of what the slabs send each other.
    fn letter_bytes(&self) -> usize {
        self.sets * self.slices * self.slabs * 2 * self.width * 8
    }

    /// Bytes of a block's row of `streams` tensors.
    fn cell_bytes(&self, streams: usize) -> usize {
        self.threads[0] * self.threads[1] * PACK * streams
    }

    /// Bytes of shared memory behind the rows: the sums of warps, or of rows where warps have no whole rows, then the slabs'
    /// in f64, then three lines of a channel each.
    fn space_bytes(&self) -> usize {
        let ([across, down], columns) = (self.threads, 2 * self.width);
        let sums = if across <= WARP && across.is_power_of_two() { across * down / WARP } else { down };
        let parts = (across * down / columns).max(1);
        sums * columns * 4 + parts * columns * 8 + 3 * self.width * 4
    }

    /// Rows of `streams` tensors that a block has room for.
    fn room(&self, shared_bytes: usize, streams: usize) -> usize {
        shared_bytes.saturating_sub(STATIC_SHARED + self.space_bytes()) / self.cell_bytes(streams)
    }

    /// What the kernel is told of all this, and the launch, for keeping rows of `streams` tensors.
    fn launch(&self, context: &Context, shape: &NormShape, streams: usize) -> (Division, Grid) {
        let [across, down] = self.threads;
        let room = self.room(context.properties.shared_bytes, streams);
        let (count, ring) = (shape.rows.div_ceil(self.slabs * down), DEPTH / streams);
        let (kept, cells) = if count <= room { (count, count) } else { (room - ring, room) };
        let shared = (cells * self.cell_bytes(streams) + self.space_bytes()) as u32;
        let blocks = [self.slabs, self.slices, self.sets].map(|n| n as u32);
        let each = self.slabs * down;
        let division = [shape.rows, shape.channels, self.width, each, count, kept].map(|n| n as u32);
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
    let meeting = v.kernels.meeting();
    // SAFETY: see `View`; letters and sums fit, and there are no more blocks than multiprocessors, so no more slices than
    // tickets.
    unsafe {
        launch!(together
            v.kernels, "norm_forward_once", grid, x, residual, y, copy, gamma, beta, mean, inverse, call.epsilon,
            running.rule, running.momentum, running.control, running.mean, running.variance, division, parameter_sets, low,
            high, meeting,
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
    let meeting = v.kernels.meeting();
    // SAFETY: as above.
    unsafe {
        launch!(together
            v.kernels, "norm_backward_once", grid, x, dy, dx, gamma, beta, mean, inverse, dscale, dshift,
            add_parameters, add, division, parameter_sets, low, high, meeting,
        );
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::batch_norm::Scope;

    /// Shared memory of a block: T4, RTX 4090, A100, H200.
    const GPUS: [(usize, usize); 4] = [(40, 64 << 10), (128, 99 << 10), (108, 163 << 10), (132, 227 << 10)];

    fn shape(rows: usize, segments: usize, channels: usize) -> NormShape {
        NormShape { rows, segments, channels, statistics: Scope::Segment, parameters: Scope::Joint }
    }

    /// Whatever is chosen has every channel once, no more blocks than multiprocessors, and room for a ring and a row.
    #[test]
    fn choices_fit_the_gpu() {
        let mut chosen = 0;
        for (blocks, shared) in GPUS {
            for (rows, segments) in [(1, 1), (7, 2), (8192, 1), (65_536, 2), (131_072, 1), (64, 200)] {
                for channels in (4..=4096).step_by(4) {
                    for pack in [4, 8] {
                        let shape = shape(rows, segments, channels);
                        let Some(it) = Slices::choose(blocks, shared, pack, &shape) else { continue };
                        chosen += 1;
                        let [across, down] = it.threads;
                        assert_eq!((it.width * it.slices, across * pack), (channels, it.width), "{it:?}");
                        assert!(it.sets * it.slices * it.slabs <= blocks && it.slabs >= 1, "{it:?}");
                        assert!(across * down <= THREADS && down >= 1, "{it:?}");
                        assert!(it.letter_bytes() <= LETTER_BYTES, "{it:?}");
                        assert!(it.room(shared, 1) > DEPTH && it.room(shared, 2) > DEPTH / 2, "{it:?}");
                    }
                }
            }
        }
        assert!(chosen > 10_000, "{chosen}");
    }

    /// What was fastest for the norms of WRN-28-10, 28-4 and 28-7 on an H200, or as fast (docs/notes/batch-norm-on-a-gpu.md).
    #[test]
    fn slices_are_those_that_were_fastest() {
        let measured = [
            (131_072, 160, 32),
            (32_768, 320, 64),
            (8192, 640, 64),
            (131_072, 64, 32),
            (32_768, 128, 32),
            (8192, 256, 32),
            (131_072, 16, 16),
        ];
        for (rows, channels, width) in measured {
            let it = Slices::choose(132, 227 << 10, 8, &shape(rows, 1, channels)).expect("they fit");
            assert_eq!(it.width, width, "{rows}×{channels}: {it:?}");
        }
    }
}
