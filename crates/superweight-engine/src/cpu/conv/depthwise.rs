//! Depthwise convolution: one channel per group, so vectors run along the channels.
//!
//! y and dx use the same pixel lattice as the dense gather, with M pixels × 2 vectors of channels
//! in registers. A tap loads two vectors of weights, and each loaded vector takes part in one
//! multiply-add, so loads are the bottleneck. dw keeps four vectors of sums per tap over a row of
//! pixels. Weights are first transposed to `[tap][channel]`, and sums are transposed back at the
//! end.

use core::ops::Range;

use rayon::prelude::*;

use super::lattice::{Cursor, Lattice, Run};
use super::tile::write;
use crate::cpu::share::Shared;
use crate::cpu::simd::{Isa, Kernel, Vector};
use crate::device::buffer::Write;
use crate::geometry::ConvGeometry;

/// Multiply-adds per task: the loads of about 50 µs.
const TASK: usize = 1 << 19;
/// Length of the longest vector of any instruction set.
const ALIGN: usize = 16;

/// Plan for y from x, or for one residue of dx from dy.
#[derive(Clone, Debug)]
pub(super) struct Depthwise {
    isa: Isa,
    lattice: Lattice,
    channels: usize,
    kernel: [usize; 2],
}

impl Depthwise {
    pub fn forward(g: &ConvGeometry, isa: Isa) -> Self {
        Self { isa, lattice: Lattice::forward(g), channels: g.in_channels, kernel: g.kernel }
    }

    pub fn backward(g: &ConvGeometry, isa: Isa) -> Vec<Self> {
        let one = |lattice| Self { isa, lattice, channels: g.in_channels, kernel: g.kernel };
        Lattice::backward(g).into_iter().map(one).collect()
    }

    /// Length of a row of channels, padded to whole vectors.
    fn row(&self) -> usize {
        self.channels.next_multiple_of(ALIGN)
    }

    /// Length of the packed taps, followed by a row of zeros for the padding.
    pub fn packed_len(&self) -> usize {
        (self.lattice.taps[0] * self.lattice.taps[1] + 1) * self.row()
    }

    pub fn pack(&self, weight: &[f32], packed: &mut [f32]) {
        let l = &self.lattice;
        let packed = &mut packed[..self.packed_len()];
        packed.fill(0.0);
        for (t, row) in packed.chunks_exact_mut(self.row()).enumerate().take(l.taps[0] * l.taps[1])
        {
            let [kh, kw] = l.kernel_tap([t / l.taps[1], t % l.taps[1]]);
            let tap =
                weight[kh * self.kernel[1] + kw..].iter().step_by(self.kernel[0] * self.kernel[1]);
            row.iter_mut().zip(tap).for_each(|(to, from)| *to = *from);
        }
    }

    pub fn run(&self, src: &[f32], packed: &[f32], dst: &mut [f32], mode: Write) {
        let l = &self.lattice;
        assert_eq!(src.len(), l.batch * l.src_size[0] * l.src_size[1] * self.channels);
        assert_eq!(dst.len(), l.batch * l.dst_size[0] * l.dst_size[1] * self.channels);
        let packed = &packed[..self.packed_len()];
        let (dst, pixels) = (Shared::new(dst), l.pixels());
        let tasks = (pixels * packed.len()).div_ceil(TASK).min(256);
        let each = pixels.div_ceil(tasks).next_multiple_of(self.isa.rows());
        (0..tasks).into_par_iter().for_each(|task| {
            let block = Block {
                depthwise: self,
                pixels: (task * each).min(pixels)..((task + 1) * each).min(pixels),
                src: src.as_ptr(),
                packed: packed.as_ptr(),
                dst: dst.as_ptr(),
                add: matches!(mode, Write::Add),
            };
            // SAFETY: lengths were checked; each task has its own pixels.
            unsafe { self.isa.run(block) }
        });
    }
}

struct Block<'a> {
    depthwise: &'a Depthwise,
    pixels: Range<usize>,
    src: *const f32,
    packed: *const f32,
    dst: *mut f32,
    add: bool,
}

impl Kernel for Block<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector, const M: usize>(self) {
        let (d, l) = (self.depthwise, &self.depthwise.lattice);
        let mut cursor = Cursor::new(l, self.pixels.start);
        for start in self.pixels.clone().step_by(M) {
            let run: Run<M> = cursor.next(l, (self.pixels.end - start).min(M));
            for channel in (0..d.channels).step_by(2 * V::LANES) {
                let left = d.channels - channel;
                // SAFETY: the caller's conditions hold here too.
                unsafe {
                    if left >= 2 * V::LANES {
                        self.tile::<V, M, 2, true>(&run, channel);
                    } else if left == V::LANES {
                        self.tile::<V, M, 1, true>(&run, channel);
                    } else {
                        self.tile::<V, M, 2, false>(&run, channel);
                    }
                }
            }
        }
    }
}

impl Block<'_> {
    #[inline(always)]
    unsafe fn tile<V: Vector, const M: usize, const N: usize, const FULL: bool>(
        &self,
        run: &Run<M>,
        channel: usize,
    ) {
        let (d, l) = (self.depthwise, &self.depthwise.lattice);
        let left = d.channels - channel;
        // SAFETY: a row is an existing source pixel, or the zeros after the taps. It is read from
        // `channel` for at most the remaining channels. Packed rows are padded to whole vectors.
        unsafe {
            let src = self.src.add(channel);
            let zeros = self.packed.add(l.taps[0] * l.taps[1] * d.row());
            let mut acc = [[V::splat(0.0); N]; M];
            let mut weight = self.packed.add(channel);
            for (th, tw) in (0..l.taps[0]).flat_map(|th| (0..l.taps[1]).map(move |tw| (th, tw))) {
                let taps = weight;
                weight = weight.wrapping_add(d.row());
                let Some(rows) = run.rows(l, [th, tw], src, zeros) else { continue };
                for j in 0..N {
                    let at = j * V::LANES;
                    if !FULL && at >= left {
                        break;
                    }
                    let tap = V::load(taps.add(at));
                    for (acc, row) in acc.iter_mut().zip(rows) {
                        let value = if FULL || left - at >= V::LANES {
                            V::load(row.add(at))
                        } else {
                            V::load_first(row.add(at), left - at)
                        };
                        acc[j] = value.mul_add(tap, acc[j]);
                    }
                }
            }
            for (acc, pixel) in acc.iter().zip(&run.pixels).take(run.count) {
                write(acc, self.dst.add(pixel.dst * d.channels + channel), left, self.add);
            }
        }
    }
}

/// Plan for dw from x and dy. The images are split into a fixed number of parts, whose sums are
/// added in order.
#[derive(Clone, Debug)]
pub(super) struct DepthwiseWeight {
    isa: Isa,
    geometry: ConvGeometry,
    parts: usize,
}

impl DepthwiseWeight {
    pub fn new(g: &ConvGeometry, isa: Isa) -> Self {
        let tasks = usize::try_from(g.multiply_adds()).unwrap_or(usize::MAX) / TASK;
        Self { isa, geometry: *g, parts: tasks.clamp(1, 32).min(g.batch) }
    }

    fn row(&self) -> usize {
        self.geometry.in_channels.next_multiple_of(ALIGN)
    }

    fn part(&self) -> usize {
        self.geometry.kernel[0] * self.geometry.kernel[1] * self.row()
    }

    pub fn scratch(&self) -> usize {
        self.parts * self.part()
    }

    pub fn run(&self, x: &[f32], dy: &[f32], dw: &mut [f32], mode: Write, scratch: &mut [f32]) {
        let g = &self.geometry;
        assert_eq!((x.len(), dy.len(), dw.len()), (g.input_len(), g.output_len(), g.weight_len()));
        let scratch = &mut scratch[..self.scratch()];
        scratch.par_chunks_exact_mut(self.part()).enumerate().for_each(|(part, sums)| {
            sums.fill(0.0);
            let images = part * g.batch / self.parts..(part + 1) * g.batch / self.parts;
            let kernel = Sum {
                weight: self,
                images,
                x: x.as_ptr(),
                dy: dy.as_ptr(),
                sums: sums.as_mut_ptr(),
            };
            // SAFETY: lengths were checked; the sums belong to this part.
            unsafe { self.isa.run(kernel) }
        });
        let taps = g.kernel[0] * g.kernel[1];
        for (channel, dw) in dw.chunks_exact_mut(taps).enumerate() {
            for (tap, dw) in dw.iter_mut().enumerate() {
                let at = tap * self.row() + channel;
                let sum: f32 = scratch.chunks_exact(self.part()).map(|part| part[at]).sum();
                *dw = if mode == Write::Add { *dw + sum } else { sum };
            }
        }
    }
}

/// Computes the sums of one part, `[tap][channel]`.
struct Sum<'a> {
    weight: &'a DepthwiseWeight,
    images: Range<usize>,
    x: *const f32,
    dy: *const f32,
    sums: *mut f32,
}

impl Kernel for Sum<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector, const M: usize>(self) {
        let g = &self.weight.geometry;
        let [oh, ow] = g.output();
        for image in self.images.clone() {
            for (r, kh) in (0..oh).flat_map(|r| (0..g.kernel[0]).map(move |kh| (r, kh))) {
                let row = (r * g.stride[0] + kh).wrapping_sub(g.padding[0]);
                if row >= g.input[0] {
                    continue;
                }
                for kw in 0..g.kernel[1] {
                    // Columns c with 0 ≤ c·s + kw − p < w.
                    let (p, s) = (g.padding[1], g.stride[1]);
                    let from = p.saturating_sub(kw).div_ceil(s).min(ow);
                    let to = (g.input[1] + p).saturating_sub(kw).div_ceil(s).min(ow);
                    if from >= to {
                        continue;
                    }
                    let x = (image * g.input[0] + row) * g.input[1] + from * s + kw - p;
                    let dy = (image * oh + r) * ow + from;
                    let mut channel = 0;
                    while channel < g.in_channels {
                        let left = g.in_channels - channel;
                        // SAFETY: `from` and `to` keep pixels inside; at least N vectors of
                        // channels remain.
                        unsafe {
                            let x = self.x.add(x * g.in_channels + channel);
                            let dy = self.dy.add(dy * g.in_channels + channel);
                            let tap = kh * g.kernel[1] + kw;
                            let sums = self.sums.add(tap * self.weight.row() + channel);
                            let steps = [s * g.in_channels, g.in_channels];
                            if left >= 4 * V::LANES {
                                pixels::<V, 4>(x, dy, steps, to - from, sums);
                                channel += 4 * V::LANES;
                            } else if left >= V::LANES {
                                pixels::<V, 1>(x, dy, steps, to - from, sums);
                                channel += V::LANES;
                            } else {
                                for i in 0..left {
                                    for c in 0..to - from {
                                        *sums.add(i) +=
                                            *x.add(c * steps[0] + i) * *dy.add(c * steps[1] + i);
                                    }
                                }
                                channel += left;
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Computes `sums += Σ x · dy` over `count` pixels.
#[inline(always)]
unsafe fn pixels<V: Vector, const N: usize>(
    x: *const f32,
    dy: *const f32,
    steps: [usize; 2],
    count: usize,
    sums: *mut f32,
) {
    // SAFETY: the caller guarantees `count` pixels of N vectors at both pointers, and N vectors of
    // sums.
    unsafe {
        let mut acc = [V::splat(0.0); N];
        for (j, acc) in acc.iter_mut().enumerate() {
            *acc = V::load(sums.add(j * V::LANES));
        }
        for c in 0..count {
            for (j, acc) in acc.iter_mut().enumerate() {
                let x = V::load(x.add(c * steps[0] + j * V::LANES));
                *acc = x.mul_add(V::load(dy.add(c * steps[1] + j * V::LANES)), *acc);
            }
        }
        for (j, acc) in acc.iter().enumerate() {
            acc.store(sums.add(j * V::LANES));
        }
    }
}
