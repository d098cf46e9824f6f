//! Direct convolution as a gather: each destination pixel sums its taps over the source.
//!
//! ```text
//! dst[n, o + S·p] (+)= Σ_t W_t · src[n, o' + s·p + t]        p over a lattice of pixels, t over taps
//! ```
//!
//! Forward is one gather with s = stride, S = 1. Backward to the data of a convolution with stride S is S²
//! gathers with s = 1, one per residue of the pixel modulo S: each sees only the taps that reach it, so no
//! multiplication is wasted on inserted zeros. Weights are packed per call into panels
//! `[tap][depth][2 vectors]`.
//!
//! A tile is any run of pixels of the flattened lattice, across rows and images, and every pixel has its own
//! pointer per tap; a tap that falls into the padding points at zeros. So there is no padded copy of the
//! source, no border code, and no remainder except at the end of a task. Not taken: im2col and `gemm`, which
//! writes nine times the source and reads it back.

use core::ops::Range;

use rayon::prelude::*;

use super::Write;
use super::tile::{accumulate, write};
use crate::cpu::share::Shared;
use crate::cpu::simd::{Isa, Kernel, Vector};
use crate::geometry::ConvGeometry;

/// One gather, planned.
#[derive(Clone, Debug)]
pub(super) struct Gather {
    isa: Isa,
    batch: usize,
    groups: usize,
    /// Channels of a group that are summed over, and that are produced.
    depth: usize,
    width: usize,
    src_size: [usize; 2],
    src_origin: [isize; 2],
    src_step: [usize; 2],
    dst_size: [usize; 2],
    dst_origin: [usize; 2],
    dst_step: [usize; 2],
    /// Pixels of the lattice, taps of the sub-kernel.
    grid: [usize; 2],
    taps: [usize; 2],
    weight: WeightWalk,
}

/// Where the weight of (group, tap, depth, width) lies.
#[derive(Clone, Debug)]
struct WeightWalk {
    group: usize,
    depth: usize,
    width: usize,
    /// Offset of the first tap, and steps from tap to tap (backward walks the kernel in reverse).
    first: usize,
    tap: [isize; 2],
}

/// Work of one task, in multiply-adds: about 60 µs of one core.
const TASK: u64 = 4 << 20;
const MOST_TASKS: usize = 256;

impl Gather {
    /// Kernels of up to this height and width: a tap's validity is a bit.
    pub const MOST_TAPS: usize = 64;

    /// y from x.
    pub fn forward(g: &ConvGeometry, isa: Isa) -> Self {
        let depth = g.in_channels / g.groups;
        let width = g.out_channels / g.groups;
        let taps = g.kernel[0] * g.kernel[1];
        Self {
            isa,
            batch: g.batch,
            groups: g.groups,
            depth,
            width,
            src_size: g.input,
            src_origin: g.padding.map(|p| -(p as isize)),
            src_step: g.stride,
            dst_size: g.output(),
            dst_origin: [0, 0],
            dst_step: [1, 1],
            grid: g.output(),
            taps: g.kernel,
            weight: WeightWalk {
                group: width * taps * depth,
                depth: 1,
                width: taps * depth,
                first: 0,
                tap: [(g.kernel[1] * depth) as isize, depth as isize],
            },
        }
    }

    /// dx from dy: one gather per residue of the pixel modulo the stride. Some may have no taps.
    pub fn backward(g: &ConvGeometry, isa: Isa) -> Vec<Self> {
        let residues = (0..g.stride[0]).flat_map(|a| (0..g.stride[1]).map(move |b| [a, b]));
        residues
            .map(|residue| Self::backward_residue(g, isa, residue))
            .filter(|g| g.grid[0] * g.grid[1] > 0)
            .collect()
    }

    /// Pixel i = a + s·r gets dy[(i + p − k) / s] for the k ≡ a + p (mod s): k = k₀ + s·j, j < J. In the order
    /// t = J − 1 − j the source row rises with t.
    fn backward_residue(g: &ConvGeometry, isa: Isa, residue: [usize; 2]) -> Self {
        let depth = g.out_channels / g.groups;
        let width = g.in_channels / g.groups;
        let taps = g.kernel[0] * g.kernel[1];
        let first = [0, 1].map(|d| (residue[d] + g.padding[d]) % g.stride[d]);
        let count = [0, 1].map(|d| g.kernel[d].saturating_sub(first[d]).div_ceil(g.stride[d]));
        let origin = [0, 1].map(|d| {
            let offset = (residue[d] + g.padding[d] - first[d]) / g.stride[d];
            offset as isize - (count[d] as isize - 1)
        });
        let pitch = [g.kernel[1] * width, width];
        let last = [0, 1].map(|d| (first[d] + g.stride[d] * count[d].saturating_sub(1)) * pitch[d]);
        Self {
            isa,
            batch: g.batch,
            groups: g.groups,
            depth,
            width,
            src_size: g.output(),
            src_origin: origin,
            src_step: [1, 1],
            dst_size: g.input,
            dst_origin: residue,
            dst_step: g.stride,
            grid: [0, 1].map(|d| g.input[d].saturating_sub(residue[d]).div_ceil(g.stride[d])),
            taps: count,
            weight: WeightWalk {
                group: depth * taps * width,
                depth: taps * width,
                width: 1,
                first: last[0] + last[1],
                tap: [0, 1].map(|d| -((g.stride[d] * pitch[d]) as isize)),
            },
        }
    }

    /// Numbers of packed weights.
    pub fn packed_len(&self) -> usize {
        self.groups * self.panel_offset(self.width.next_multiple_of(self.isa.lanes()))
    }

    /// Numbers of zeros that taps in the padding read.
    pub fn zeros_len(&self) -> usize {
        self.depth
    }

    fn panel_offset(&self, channel: usize) -> usize {
        self.taps[0] * self.taps[1] * self.depth * channel
    }

    fn panel_width(&self) -> usize {
        2 * self.isa.lanes()
    }

    fn panels_per_group(&self) -> usize {
        self.width.div_ceil(self.panel_width())
    }

    /// Group, channels within it, and place in the packed weights.
    fn panel(&self, index: usize) -> Panel {
        let group = index / self.panels_per_group();
        let start = index % self.panels_per_group() * self.panel_width();
        let width = (self.width - start).min(self.panel_width());
        let group_len = self.panel_offset(self.width.next_multiple_of(self.isa.lanes()));
        Panel { group, start, width, packed: group * group_len + self.panel_offset(start) }
    }

    /// Packs the weight: panel by panel `[tap][depth][vectors]`, ragged channels filled with zeros.
    pub fn pack(&self, weight: &[f32], packed: &mut [f32]) {
        let packed = Shared::new(packed);
        (0..self.groups * self.panels_per_group()).into_par_iter().for_each(|index| {
            let panel = self.panel(index);
            let lanes = panel.width.next_multiple_of(self.isa.lanes());
            // SAFETY: panels lie behind each other.
            let out = unsafe { packed.part(panel.packed, self.panel_offset(lanes)) };
            if panel.width < lanes {
                out.fill(0.0);
            }
            let start = panel.group * self.weight.group + self.weight.first + panel.start * self.weight.width;
            for t in 0..self.taps[0] * self.taps[1] {
                let (th, tw) = ((t / self.taps[1]) as isize, (t % self.taps[1]) as isize);
                let from =
                    &weight[start.wrapping_add_signed(th * self.weight.tap[0] + tw * self.weight.tap[1])..];
                let to = &mut out[t * self.depth * lanes..][..self.depth * lanes];
                if self.weight.width == 1 {
                    for (k, to) in to.chunks_exact_mut(lanes).enumerate() {
                        to[..panel.width].copy_from_slice(&from[k * self.weight.depth..][..panel.width]);
                    }
                } else {
                    // Sixteen steps of k at a time: their cache lines are written whole before they leave.
                    for k in (0..self.depth).step_by(16) {
                        let steps = (self.depth - k).min(16);
                        for c in 0..panel.width {
                            let from = &from[c * self.weight.width + k..][..steps];
                            for (i, &value) in from.iter().enumerate() {
                                to[(k + i) * lanes + c] = value;
                            }
                        }
                    }
                }
            }
        });
    }

    /// Runs the gather over packed weights. `zeros` are [`zeros_len`](Self::zeros_len) zeros.
    pub fn run(&self, src: &[f32], packed: &[f32], zeros: &[f32], dst: &mut [f32], mode: Write) {
        assert_eq!(src.len(), self.batch * self.src_size[0] * self.src_size[1] * self.depth * self.groups);
        assert_eq!(dst.len(), self.batch * self.dst_size[0] * self.dst_size[1] * self.width * self.groups);
        assert!(packed.len() >= self.packed_len() && zeros.len() >= self.zeros_len());
        let (pixels, panels) =
            (self.batch * self.grid[0] * self.grid[1], self.groups * self.panels_per_group());
        let [pixel_blocks, panel_blocks] = self.split(pixels, panels);
        let dst = Shared::new(dst);
        (0..pixel_blocks * panel_blocks).into_par_iter().for_each(|task| {
            let rows = self.isa.rows();
            let pixels_each = pixels.div_ceil(pixel_blocks).next_multiple_of(rows);
            let block = Block {
                gather: self,
                pixels: part(task % pixel_blocks, pixels_each, pixels),
                panels: part(task / pixel_blocks, panels.div_ceil(panel_blocks), panels),
                src: src.as_ptr(),
                packed: packed.as_ptr(),
                zeros: zeros.as_ptr(),
                dst: dst.as_ptr(),
                add: matches!(mode, Write::Add),
            };
            // SAFETY: lengths were checked above; blocks are disjoint in pixels or in channels.
            unsafe { self.isa.run(block) }
        });
    }

    /// Tasks over pixels and over panels. Panels are split first where the weights are the larger operand,
    /// so that each is read by one task only.
    fn split(&self, pixels: usize, panels: usize) -> [usize; 2] {
        let work = pixels as u64 * self.packed_len() as u64;
        let tasks = usize::try_from(work / TASK).unwrap_or(MOST_TASKS).clamp(1, MOST_TASKS);
        let most_pixels = pixels.div_ceil(self.isa.rows());
        if pixels * self.groups * self.depth >= self.packed_len() {
            let blocks = tasks.min(most_pixels);
            [blocks, (tasks / blocks).clamp(1, panels)]
        } else {
            let blocks = tasks.min(panels);
            [(tasks / blocks).clamp(1, most_pixels), blocks]
        }
    }
}

fn part(index: usize, each: usize, total: usize) -> Range<usize> {
    (index * each).min(total)..((index + 1) * each).min(total)
}

struct Panel {
    group: usize,
    start: usize,
    width: usize,
    packed: usize,
}

/// A task: some pixels by some panels.
struct Block<'a> {
    gather: &'a Gather,
    pixels: Range<usize>,
    panels: Range<usize>,
    src: *const f32,
    packed: *const f32,
    zeros: *const f32,
    dst: *mut f32,
    add: bool,
}

impl Kernel for Block<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector, const M: usize>(self) {
        for index in self.panels.clone() {
            let panel = self.gather.panel(index);
            // SAFETY: passed on.
            unsafe {
                if panel.width > V::LANES {
                    self.tiles::<V, M, 2>(&panel);
                } else {
                    self.tiles::<V, M, 1>(&panel);
                }
            }
        }
    }
}

impl Block<'_> {
    #[inline(always)]
    unsafe fn tiles<V: Vector, const M: usize, const N: usize>(&self, panel: &Panel) {
        let g = self.gather;
        let (src_pitch, dst_pitch) = (g.groups * g.depth, g.groups * g.width);
        // SAFETY: a group's channels start inside the buffers.
        let (src, dst, packed) = unsafe {
            (
                self.src.add(panel.group * g.depth),
                self.dst.add(panel.group * g.width + panel.start),
                self.packed.add(panel.packed),
            )
        };
        let mut cursor = Cursor::new(g, self.pixels.start);
        let mut left = self.pixels.len();
        while left > 0 {
            let count = left.min(M);
            let mut pixels = [Pixel::NONE; M];
            let (mut all, mut any) = ([u64::MAX; 2], [0; 2]);
            for pixel in pixels.iter_mut().take(count) {
                *pixel = cursor.pixel(g);
                cursor.advance(g);
                for d in 0..2 {
                    all[d] &= pixel.valid[d];
                    any[d] |= pixel.valid[d];
                }
            }
            if count < M {
                all = [0; 2];
            }

            // SAFETY: a row is a source pixel that exists, by its valid bits, or the zeros; the packed panel
            // has depth · N vectors per tap; destination pixels exist and the panel's channels are inside.
            unsafe {
                let mut acc = [[V::splat(0.0); N]; M];
                for th in 0..g.taps[0] {
                    for tw in 0..g.taps[1] {
                        if any[0] >> th & any[1] >> tw & 1 == 0 {
                            continue;
                        }
                        let tap = (th * g.src_size[1] + tw) as isize;
                        let mut rows = [self.zeros; M];
                        if all[0] >> th & all[1] >> tw & 1 == 1 {
                            for (row, pixel) in rows.iter_mut().zip(&pixels) {
                                *row = src.wrapping_offset((pixel.src + tap) * src_pitch as isize);
                            }
                        } else {
                            for (row, pixel) in rows.iter_mut().zip(&pixels) {
                                if pixel.valid[0] >> th & pixel.valid[1] >> tw & 1 == 1 {
                                    *row = src.wrapping_offset((pixel.src + tap) * src_pitch as isize);
                                }
                            }
                        }
                        let at = (th * g.taps[1] + tw) * g.depth * N * V::LANES;
                        acc = accumulate(acc, &rows, g.depth, packed.add(at));
                    }
                }
                for (acc, pixel) in acc.iter().zip(&pixels).take(count) {
                    write(acc, dst.add(pixel.dst * dst_pitch), panel.width, self.add);
                }
            }
            left -= count;
        }
    }
}

/// A pixel of the lattice: its first tap in the source and its place in the destination, both in pixels;
/// a bit per row and per column of taps that lie inside the source.
#[derive(Clone, Copy)]
struct Pixel {
    src: isize,
    dst: usize,
    valid: [u64; 2],
}

impl Pixel {
    const NONE: Self = Self { src: 0, dst: 0, valid: [0; 2] };
}

/// Walks the flattened lattice.
struct Cursor {
    image: usize,
    row: usize,
    column: usize,
}

impl Cursor {
    #[inline(always)]
    fn new(g: &Gather, index: usize) -> Self {
        let (image, rest) = (index / (g.grid[0] * g.grid[1]), index % (g.grid[0] * g.grid[1]));
        Self { image, row: rest / g.grid[1], column: rest % g.grid[1] }
    }

    #[inline(always)]
    fn advance(&mut self, g: &Gather) {
        self.column += 1;
        if self.column == g.grid[1] {
            self.column = 0;
            self.row += 1;
            if self.row == g.grid[0] {
                self.row = 0;
                self.image += 1;
            }
        }
    }

    #[inline(always)]
    fn pixel(&self, g: &Gather) -> Pixel {
        let at = [self.row, self.column];
        let [h, w] = [0, 1].map(|d| (at[d] * g.src_step[d]) as isize + g.src_origin[d]);
        let [dh, dw] = [0, 1].map(|d| at[d] * g.dst_step[d] + g.dst_origin[d]);
        Pixel {
            src: (self.image * g.src_size[0]) as isize * g.src_size[1] as isize
                + h * g.src_size[1] as isize
                + w,
            dst: (self.image * g.dst_size[0] + dh) * g.dst_size[1] + dw,
            valid: [inside(h, g.src_size[0]), inside(w, g.src_size[1])],
        }
    }
}

/// Bit t is set where `0 ≤ start + t < size`.
#[inline(always)]
fn inside(start: isize, size: usize) -> u64 {
    let from = (-start).max(0);
    let to = (size as isize - start).clamp(0, 64);
    if from >= to {
        return 0;
    }
    (u64::MAX >> (64 - to)) & (u64::MAX << from)
}
