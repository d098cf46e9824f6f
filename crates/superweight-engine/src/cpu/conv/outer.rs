//! Gradient of the weight as sums of outer products, held in registers.
//!
//! ```text
//! dw[o, t, i] (+)= Σ_pixels dy[p, o] · x[p ∘ t, i]
//! ```
//!
//! A column of dw is a vector of input channels of one tap. A register tile is M output channels by
//! three columns, which may belong to three taps: 11 loads for 24 multiply-adds, also with 16
//! channels, where one column is a whole tap. Both operands are read in place.
//!
//! The images are split into a fixed number of parts, each with its own partial sum, added in order
//! at the end. So the result does not depend on the number of threads. With many channels there are
//! enough tiles to distribute, so there are few parts or one.

use core::ops::Range;

use rayon::prelude::*;

use super::fold::Fold;
use super::stretch::{Column, Line, Stretch};
use super::tile::write;
use crate::cpu::share::Shared;
use crate::cpu::simd::{Isa, Kernel, Vector};
use crate::device::buffer::Write;
use crate::geometry::ConvGeometry;

/// Plan of the gradient of a weight.
#[derive(Clone, Debug)]
pub(super) struct Outer {
    isa: Isa,
    geometry: ConvGeometry,
    /// Number of taps, and input channels per tap: those of the kernel, or folded.
    kernel: [usize; 2],
    depth: usize,
    /// Number of partial sums, and of ranges of output channels. Each pair is a task.
    parts: usize,
    ranges: usize,
    /// Images per tile before it is written back to memory.
    visit: usize,
}

/// Multiply-adds per task: about 120 µs of one core.
const TASK: u64 = 8 << 20;
/// Largest number of floats in all partial sums: 4 MiB.
const PARTIAL_SUMS: usize = 1 << 20;
/// Stretches per tile before it is written back to memory. All output channels share them, so they
/// are computed once. Computing them per tile took a quarter of the time at 8×8 outputs.
const WALK: usize = 64;
/// Number of pixels that makes loading and storing a tile cheap.
const VISIT: usize = 256;

impl Outer {
    pub fn new(geometry: &ConvGeometry, isa: Isa) -> Self {
        let mut g = *geometry;
        if g.kernel == [1, 1] && g.stride == [1, 1] && g.padding == [0, 0] {
            g.input = [1, g.input[0] * g.input[1]]; // one long row
        }
        let tasks = usize::try_from(g.multiply_adds() / TASK).unwrap_or(usize::MAX).clamp(1, 64);
        let parts = tasks.min(g.batch).min((PARTIAL_SUMS / g.weight_len()).max(1)).min(16);
        let row_tiles = (g.out_channels / g.groups).div_ceil(isa.rows());
        let ranges = tasks.div_ceil(parts).clamp(1, row_tiles);
        let [h, w] = g.output();
        let depth = g.in_channels / g.groups;
        let visit = VISIT.div_ceil(h * w).max(1);
        Self { isa, geometry: g, kernel: g.kernel, depth, parts, ranges, visit }
    }

    /// Plans the gradient from the padded copy of x.
    pub fn folded(fold: &Fold, isa: Isa) -> Self {
        let mut outer = Self::new(&fold.padded(), isa);
        outer.kernel[1] = 1;
        outer.depth = fold.depth();
        outer
    }

    pub fn scratch(&self) -> usize {
        self.parts * self.geometry.weight_len()
    }

    pub fn run(&self, x: &[f32], dy: &[f32], dw: &mut [f32], mode: Write, scratch: &mut [f32]) {
        let g = &self.geometry;
        assert_eq!((x.len(), dy.len(), dw.len()), (g.input_len(), g.output_len(), g.weight_len()));
        let scratch = &mut scratch[..self.scratch()];
        let partial = Shared::new(scratch);
        let rows_each =
            (g.out_channels / g.groups).div_ceil(self.ranges).next_multiple_of(self.isa.rows());
        (0..self.parts * self.ranges).into_par_iter().for_each(|task| {
            let (part, range) = (task % self.parts, task / self.parts);
            let block = Block {
                outer: self,
                x: x.as_ptr(),
                dy: dy.as_ptr(),
                // SAFETY: parts do not overlap and are inside the scratch memory by its length.
                dw: unsafe { partial.as_ptr().add(part * g.weight_len()) },
                images: part * g.batch / self.parts..(part + 1) * g.batch / self.parts,
                channels: (range * rows_each).min(g.out_channels / g.groups)
                    ..((range + 1) * rows_each).min(g.out_channels / g.groups),
            };
            // SAFETY: lengths were checked above; tasks differ in their part or their output
            // channels.
            unsafe { self.isa.run(block) }
        });
        add_parts(scratch, dw, mode);
    }
}

/// Computes `dst (+)= Σ parts`, in order.
fn add_parts(parts: &[f32], dst: &mut [f32], mode: Write) {
    const CHUNK: usize = 1 << 13;
    let len = dst.len();
    dst.par_chunks_mut(CHUNK).enumerate().for_each(|(index, dst)| {
        let here = dst.len();
        let mut parts = parts.chunks_exact(len).map(|part| &part[index * CHUNK..][..here]);
        if let Write::Set = mode {
            dst.copy_from_slice(parts.next().expect("at least one part"));
        }
        for part in parts {
            dst.iter_mut().zip(part).for_each(|(dst, part)| *dst += part);
        }
    });
}

/// A task: some images and some output channels of every group.
struct Block<'a> {
    outer: &'a Outer,
    x: *const f32,
    dy: *const f32,
    dw: *mut f32,
    images: Range<usize>,
    channels: Range<usize>,
}

impl Kernel for Block<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector, const M: usize>(self) {
        let g = &self.outer.geometry;
        let [kh, kw] = self.outer.kernel;
        let columns = kh * kw * self.outer.depth.div_ceil(V::LANES);
        let wide = M * 3 + 4 <= 32 && V::LANES == 16;
        let mut start = self.images.start;
        while start < self.images.end {
            let images = start..(start + self.outer.visit).min(self.images.end);
            let fresh = start == self.images.start;
            for group in 0..g.groups {
                let mut column = 0;
                while column < columns {
                    let left = columns - column;
                    // SAFETY: the caller's conditions hold here too.
                    column += unsafe {
                        if wide && (left == 3 || left > 4) {
                            self.columns::<V, M, 3>(group, column, images.clone(), fresh)
                        } else if left >= 2 {
                            self.columns::<V, M, 2>(group, column, images.clone(), fresh)
                        } else {
                            self.columns::<V, M, 1>(group, column, images.clone(), fresh)
                        }
                    };
                }
            }
            start = images.end;
        }
    }
}

impl Block<'_> {
    /// All output channels of the task by N columns.
    #[inline(always)]
    unsafe fn columns<V: Vector, const M: usize, const N: usize>(
        &self,
        group: usize,
        first: usize,
        images: Range<usize>,
        mut fresh: bool,
    ) -> usize {
        let g = &self.outer.geometry;
        let Outer { kernel, depth, .. } = *self.outer;
        let vectors = depth.div_ceil(V::LANES);
        let mut columns = [Column::default(); N];
        for (j, column) in columns.iter_mut().enumerate() {
            let (tap, vector) = ((first + j) / vectors, (first + j) % vectors);
            let channel = vector * V::LANES;
            let width = (depth - channel).min(V::LANES);
            *column = Column { tap: [tap / kernel[1], tap % kernel[1]], channel, width };
        }

        let mut walk = [Stretch::NONE; WALK];
        let mut len = 0;
        let x = self.x.wrapping_add(group * depth);
        for image in images {
            for row in 0..g.output()[0] {
                let line = Line::new(g, &columns, [image, row], x, self.dy);
                let mut at = 0;
                while let Some((stretch, next)) = line.stretch(at) {
                    at = next;
                    walk[len] = stretch;
                    len += 1;
                    if len == WALK {
                        // SAFETY: the caller's conditions hold here too.
                        unsafe { self.tiles::<V, M, N>(&columns, group, &walk, fresh) };
                        (len, fresh) = (0, false);
                    }
                }
            }
        }
        if len > 0 || fresh {
            // SAFETY: the caller's conditions hold here too.
            unsafe { self.tiles::<V, M, N>(&columns, group, &walk[..len], fresh) };
        }
        N
    }

    #[inline(always)]
    unsafe fn tiles<V: Vector, const M: usize, const N: usize>(
        &self,
        columns: &[Column; N],
        group: usize,
        walk: &[Stretch<N>],
        fresh: bool,
    ) {
        let full = columns.iter().all(|c| c.width == V::LANES);
        let mut channel = self.channels.start;
        while channel < self.channels.end {
            // SAFETY: the caller's conditions hold here too; a tile has M rows only where M output
            // channels remain.
            unsafe {
                if channel + M <= self.channels.end {
                    if full {
                        self.tile::<V, M, N, true>(columns, group, channel, walk, fresh);
                    } else {
                        self.tile::<V, M, N, false>(columns, group, channel, walk, fresh);
                    }
                    channel += M;
                } else {
                    self.tile::<V, 1, N, false>(columns, group, channel, walk, fresh);
                    channel += 1;
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn tile<V: Vector, const M: usize, const N: usize, const FULL: bool>(
        &self,
        columns: &[Column; N],
        group: usize,
        channel: usize,
        walk: &[Stretch<N>],
        fresh: bool,
    ) {
        let g = &self.outer.geometry;
        let Outer { kernel, depth, .. } = *self.outer;
        let channel = group * (g.out_channels / g.groups) + channel;
        // SAFETY: a stretch's pixels are inside the image, with `width` channels from the column's
        // first, or zeros. dy has M channels from `channel`, and the rows of dw exist.
        unsafe {
            let mut acc = [[V::splat(0.0); N]; M];
            for stretch in walk {
                acc = outer::<V, M, N, FULL>(acc, stretch, columns, channel, g.out_channels);
            }
            for (i, acc) in acc.iter().enumerate() {
                for (acc, column) in acc.iter().zip(columns) {
                    let tap = column.tap[0] * kernel[1] + column.tap[1];
                    let row = (channel + i) * kernel[0] * kernel[1] + tap;
                    let dst = self.dw.add(row * depth + column.channel);
                    write(&[*acc], dst, column.width, !fresh);
                }
            }
        }
    }
}

/// Returns `acc[i][j] + Σ dy[channel + i] · column[j]` over a stretch. By value, because through a
/// reference the compiler stored all 24 registers at every pixel, at half the speed.
#[inline(always)]
unsafe fn outer<V: Vector, const M: usize, const N: usize, const FULL: bool>(
    mut acc: [[V; N]; M],
    stretch: &Stretch<N>,
    columns: &[Column; N],
    channel: usize,
    dy_step: usize,
) -> [[V; N]; M] {
    let mut rows = stretch.rows;
    let mut dy = stretch.dy.wrapping_add(channel);
    for _ in 0..stretch.count {
        // SAFETY: the caller guarantees the stretch's pixels at every pointer. The last step may
        // leave the buffer, so it wraps.
        unsafe {
            let mut right = [V::splat(0.0); N];
            for ((right, row), column) in right.iter_mut().zip(&mut rows).zip(columns) {
                *right = if FULL || column.width == V::LANES {
                    V::load(row.0)
                } else {
                    V::load_first(row.0, column.width)
                };
                row.0 = row.0.wrapping_add(row.1);
            }
            for (i, acc) in acc.iter_mut().enumerate() {
                let left = V::splat(*dy.add(i));
                for (acc, right) in acc.iter_mut().zip(right) {
                    *acc = left.mul_add(right, *acc);
                }
            }
            dy = dy.wrapping_add(dy_step);
        }
    }
    acc
}
