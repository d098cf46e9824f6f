//! Direct convolution as a gather: each destination pixel sums its taps over the source.
//!
//! Each call packs the weights into panels `[tap][depth][2 vectors]`. A task multiplies a range of
//! pixels by some panels. A register tile has M consecutive pixels of the lattice, across rows and
//! images. Every pixel has its own pointer per tap, and a tap in the padding points to zeros. So
//! there is no padded copy of the source, no border code, and no remainder except at the end of a
//! task. Not used: im2col with `gemm`, which writes nine times the source and reads it back.

use core::ops::Range;

use rayon::prelude::*;

use super::fold::Fold;
use super::lattice::{Cursor, Lattice, Run};
use super::tile::{accumulate, write};
use crate::cpu::share::Shared;
use crate::cpu::simd::{Isa, Kernel, Vector};
use crate::device::buffer::Write;
use crate::geometry::ConvGeometry;

/// Plan of one gather.
#[derive(Clone, Debug)]
pub(super) struct Gather {
    isa: Isa,
    lattice: Lattice,
    groups: usize,
    /// Channels per group: number summed over, and number produced.
    depth: usize,
    width: usize,
    weight: WeightWalk,
}

/// Strides in the weight: between groups, between taps, and along the summed and produced channels.
#[derive(Clone, Debug)]
struct WeightWalk {
    group: usize,
    tap: [usize; 2],
    depth: usize,
    width: usize,
}

/// Multiply-adds per task: about 60 µs of one core.
const TASK: u64 = 4 << 20;
const MOST_TASKS: usize = 256;

impl Gather {
    /// Plans y from x.
    pub fn forward(g: &ConvGeometry, isa: Isa) -> Self {
        let (depth, width) = (g.in_channels / g.groups, g.out_channels / g.groups);
        let filter = g.kernel[0] * g.kernel[1] * depth;
        let tap = [g.kernel[1] * depth, depth];
        let weight = WeightWalk { group: width * filter, tap, depth: 1, width: filter };
        Self { isa, lattice: Lattice::forward(g), groups: g.groups, depth, width, weight }
    }

    /// Plans y from the padded copy of x.
    pub fn folded(fold: &Fold, isa: Isa) -> Self {
        let mut gather = Self::forward(&fold.padded(), isa);
        gather.depth = fold.depth();
        gather.lattice.taps[1] = 1;
        gather
    }

    /// Plans dx from dy, with one gather per residue of the pixel modulo the stride.
    pub fn backward(g: &ConvGeometry, isa: Isa) -> Vec<Self> {
        let (depth, width) = (g.out_channels / g.groups, g.in_channels / g.groups);
        let filter = g.kernel[0] * g.kernel[1] * width;
        let tap = [g.kernel[1] * width, width];
        let weight = WeightWalk { group: depth * filter, tap, depth: filter, width: 1 };
        let one =
            |lattice| Self { isa, lattice, groups: g.groups, depth, width, weight: weight.clone() };
        Lattice::backward(g).into_iter().map(one).collect()
    }

    /// Length of the packed weights, followed by zeros that taps in the padding read.
    pub fn packed_len(&self) -> usize {
        self.panels_len() + self.depth
    }

    /// Length of the packed weights without the zeros.
    pub fn panels_len(&self) -> usize {
        self.groups * self.panel_offset(self.width.next_multiple_of(self.isa.lanes()))
    }

    fn panel_offset(&self, channel: usize) -> usize {
        self.taps() * self.depth * channel
    }

    fn taps(&self) -> usize {
        self.lattice.taps[0] * self.lattice.taps[1]
    }

    fn panel_width(&self) -> usize {
        2 * self.isa.lanes()
    }

    fn panels_per_group(&self) -> usize {
        self.width.div_ceil(self.panel_width())
    }

    /// Group, channels and packed offset of a panel.
    fn panel(&self, index: usize) -> Panel {
        let group = index / self.panels_per_group();
        let start = index % self.panels_per_group() * self.panel_width();
        let width = (self.width - start).min(self.panel_width());
        let group_len = self.panel_offset(self.width.next_multiple_of(self.isa.lanes()));
        Panel { group, start, width, packed: group * group_len + self.panel_offset(start) }
    }

    /// Packs the weight panel by panel, `[tap][depth][vectors]`. Missing channels of the last
    /// vector are zeros.
    pub fn pack(&self, weight: &[f32], packed: &mut [f32]) {
        let (panels, zeros) = packed[..self.packed_len()].split_at_mut(self.panels_len());
        zeros.fill(0.0);
        let packed = Shared::new(panels);
        (0..self.groups * self.panels_per_group()).into_par_iter().for_each(|index| {
            let panel = self.panel(index);
            let lanes = panel.width.next_multiple_of(self.isa.lanes());
            // SAFETY: panels do not overlap.
            let out = unsafe { packed.part(panel.packed, self.panel_offset(lanes)) };
            if panel.width < lanes {
                out.fill(0.0);
            }
            let start = panel.group * self.weight.group + panel.start * self.weight.width;
            for t in 0..self.taps() {
                let [kh, kw] =
                    self.lattice.kernel_tap([t / self.lattice.taps[1], t % self.lattice.taps[1]]);
                let from = &weight[start + kh * self.weight.tap[0] + kw * self.weight.tap[1]..];
                let to = &mut out[t * self.depth * lanes..][..self.depth * lanes];
                if self.weight.width == 1 {
                    for (k, to) in to.chunks_exact_mut(lanes).enumerate() {
                        to[..panel.width]
                            .copy_from_slice(&from[k * self.weight.depth..][..panel.width]);
                    }
                } else {
                    transpose(from, self.weight.width, panel.width, to, lanes);
                }
            }
        });
    }

    /// Runs the gather with packed weights.
    pub fn run(&self, src: &[f32], packed: &[f32], dst: &mut [f32], mode: Write) {
        let l = &self.lattice;
        assert_eq!(src.len(), l.batch * l.src_size[0] * l.src_size[1] * l.pitch);
        assert_eq!(dst.len(), l.batch * l.dst_size[0] * l.dst_size[1] * self.width * self.groups);
        let (packed, zeros) = packed[..self.packed_len()].split_at(self.panels_len());
        let (pixels, panels) = (l.pixels(), self.groups * self.panels_per_group());
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

    /// Number of tasks over pixels and over panels. If the weights are the larger operand, panels
    /// are split first, so that only one task reads each.
    fn split(&self, pixels: usize, panels: usize) -> [usize; 2] {
        let work = pixels as u64 * self.panels_len() as u64;
        let tasks = usize::try_from(work / TASK).unwrap_or(MOST_TASKS).clamp(1, MOST_TASKS);
        let most_pixels = pixels.div_ceil(self.isa.rows());
        if pixels * self.groups * self.depth >= self.panels_len() {
            let blocks = tasks.min(most_pixels);
            [blocks, (tasks / blocks).clamp(1, panels)]
        } else {
            let blocks = tasks.min(panels);
            [(tasks / blocks).clamp(1, most_pixels), blocks]
        }
    }
}

/// Computes `to[k][c] = from[c][k]` for c below `width`, in blocks of 4×4 that stay in registers.
/// Element by element it took about a tenth of a Winograd convolution of 256 channels, 8×8, batch
/// 32 (by profile).
fn transpose(from: &[f32], from_row: usize, width: usize, to: &mut [f32], to_row: usize) {
    let depth = to.len() / to_row;
    let whole = [depth - depth % 4, width - width % 4];
    for k in (0..whole[0]).step_by(4) {
        for c in (0..whole[1]).step_by(4) {
            let mut block = [[0.0; 4]; 4];
            for (j, row) in block.iter_mut().enumerate() {
                row.copy_from_slice(&from[(c + j) * from_row + k..][..4]);
            }
            for i in 0..4 {
                let column = [block[0][i], block[1][i], block[2][i], block[3][i]];
                to[(k + i) * to_row + c..][..4].copy_from_slice(&column);
            }
        }
    }
    for k in 0..depth {
        for c in if k < whole[0] { whole[1] } else { 0 }..width {
            to[k * to_row + c] = from[c * from_row + k];
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

/// A task: a range of pixels by a range of panels.
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
            // SAFETY: the caller's conditions hold here too.
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
        let dst_pitch = g.groups * g.width;
        // SAFETY: the channels of a group start inside the buffers.
        let (src, dst, packed) = unsafe {
            (
                self.src.add(panel.group * g.depth),
                self.dst.add(panel.group * g.width + panel.start),
                self.packed.add(panel.packed),
            )
        };
        let taps = g.lattice.taps;
        let mut cursor = Cursor::new(&g.lattice, self.pixels.start);
        for start in self.pixels.clone().step_by(M) {
            let run: Run<M> = cursor.next(&g.lattice, (self.pixels.end - start).min(M));
            // SAFETY: a row is an existing source pixel or the zeros. The packed panel has depth ·
            // N vectors per tap. Destination pixels exist and the panel's channels are inside.
            unsafe {
                let mut acc = [[V::splat(0.0); N]; M];
                for th in 0..taps[0] {
                    for tw in 0..taps[1] {
                        if let Some(rows) = run.rows(&g.lattice, [th, tw], src, self.zeros) {
                            let at = (th * taps[1] + tw) * g.depth * N * V::LANES;
                            acc = accumulate(acc, &rows, g.depth, packed.add(at));
                        }
                    }
                }
                for (acc, pixel) in acc.iter().zip(&run.pixels).take(run.count) {
                    write(acc, dst.add(pixel.dst * dst_pitch), panel.width, self.add);
                }
            }
        }
    }
}
