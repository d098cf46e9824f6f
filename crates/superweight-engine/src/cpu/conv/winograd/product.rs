//! Winograd convolution of activations: y from x, or dx from dy. It transforms a block of tiles to
//! 36 planes, multiplies each by its plane of the weight, and transforms back.

use core::marker::PhantomData;
use core::ops::Range;

use rayon::prelude::*;

use super::tiling::{Collect, PLANES, POINTS, Planes, STEP, Spread, Tiling};
use super::transform::{Inputs, Regular, Taps, both};
use crate::cpu::conv::gather::Gather;
use crate::cpu::conv::tile::{accumulate, write};
use crate::cpu::share::{Shared, Slots};
use crate::cpu::simd::{Isa, Kernel, Vector};
use crate::device::buffer::Write;
use crate::geometry::ConvGeometry;

/// Plan of a stride-1 3×3 convolution, forward or backward to the data.
#[derive(Clone, Debug)]
pub(in crate::cpu::conv) struct Winograd {
    isa: Isa,
    src: Tiling,
    dst: Tiling,
    /// Packs the weight like the direct convolution; the transform starts from that.
    pack: Gather,
    tiles: usize,
    /// Tiles per block, which is processed together.
    block: usize,
    /// Number of tasks that process blocks. With `share_planes`, all tasks share the planes of one
    /// block instead.
    tasks: usize,
    share_planes: bool,
}

/// Floats in the planes of a block: 256 KiB of L2 cache, next to the weights.
const BLOCK: usize = 1 << 16;
/// Floats in the planes that all tasks share: 16 MiB.
const SHARED_BLOCK: usize = 1 << 22;
/// Above this many transformed weights (4 MiB), tasks share planes. Otherwise each block would read
/// all weights again from the L3 cache. One thread, batch 32, two runs each: with shared planes y
/// of 256 channels runs 1.15 times as fast and dx 0.9 times, both of 128 channels 0.9 times, of 64
/// channels 0.7 times.
const WEIGHTS: usize = 1 << 20;
/// Largest number of tasks over blocks. Each may need a slot of planes.
const MOST_TASKS: usize = 32;
/// Tiles per task that only transforms.
const SOME: usize = 16;

impl Winograd {
    /// Returns true if the algorithm applies.
    pub fn applies(g: &ConvGeometry) -> bool {
        g.kernel == [3, 3]
            && g.stride == [1, 1]
            && g.groups == 1
            && g.padding.iter().all(|&p| p <= 2)
    }

    /// Returns true if the algorithm is faster than the direct convolution, with the weight
    /// transform in every call.
    ///
    /// With few tiles that transform does not pay off. Transform and product both grow with in ·
    /// out, so the crossover is a number of tiles. Direct time / Winograd time for y and dx,
    /// measured as in the module's table (shapes `tiles…` of bench `conv`):
    ///
    /// | tiles | 4 | 16 | 32 | 48 | 64 | many |
    /// |---|---|---|---|---|---|---|
    /// | 16 channels | | 0.9 | | | 1.6 | 1.9 |
    /// | 64 channels | 0.5 | 1.0 | 1.3 | 1.6 | 1.7 | 2.2 |
    /// | 256 channels | 0.4 | 0.9 | 1.0–1.2 | 1.3–1.5 | 1.4–1.5 | 2.1–2.4 |
    ///
    /// Even 4 to 8 channels gain, 1.5 to 2.6 times at 512 tiles, because lanes are as empty in both
    /// algorithms.
    pub fn wins(g: &ConvGeometry) -> bool {
        let tiles = g.batch * g.output().iter().map(|n| n.div_ceil(STEP)).product::<usize>();
        Self::applies(g) && tiles >= 32 && g.out_channels >= 4
    }

    pub fn forward(g: &ConvGeometry, isa: Isa) -> Self {
        let grid = g.output().map(|n| n.div_ceil(STEP));
        let origin = g.padding.map(|p| -(p as isize));
        let src = Tiling { size: g.input, channels: g.in_channels, origin, grid };
        let dst = Tiling { size: g.output(), channels: g.out_channels, origin: [0, 0], grid };
        Self::new(g, isa, src, dst, Gather::forward(g, isa))
    }

    pub fn backward(g: &ConvGeometry, isa: Isa) -> Self {
        let grid = g.input.map(|n| n.div_ceil(STEP));
        let origin = g.padding.map(|p| p as isize - 2);
        let src = Tiling { size: g.output(), channels: g.out_channels, origin, grid };
        let dst = Tiling { size: g.input, channels: g.in_channels, origin: [0, 0], grid };
        let [pack] = Gather::backward(g, isa).try_into().expect("stride 1 has one residue");
        Self::new(g, isa, src, dst, pack)
    }

    fn new(g: &ConvGeometry, isa: Isa, src: Tiling, dst: Tiling, pack: Gather) -> Self {
        let tiles = g.batch * src.grid[0] * src.grid[1];
        let channels = src.channels + dst.channels;
        let share_planes = PLANES * src.channels * dst.channels > WEIGHTS;
        let block = if share_planes {
            (SHARED_BLOCK / (PLANES * channels)).min(tiles)
        } else {
            (BLOCK / (PLANES * channels)).clamp(16, 64).min(tiles.div_ceil(4))
        };
        let block = block.next_multiple_of(isa.rows());
        let tasks = if share_planes { 1 } else { tiles.div_ceil(block).min(MOST_TASKS) };
        Self { isa, src, dst, pack, tiles, block, tasks, share_planes }
    }

    /// Length of the transformed weights.
    pub fn packed_len(&self) -> usize {
        self.plane() * PLANES
    }

    /// Floats of scratch memory for [`pack`](Self::pack) and [`run`](Self::run).
    pub fn scratch(&self) -> usize {
        self.pack.packed_len().max(self.tasks * self.slot())
    }

    fn slot(&self) -> usize {
        self.left().len() + self.product().len()
    }

    fn left(&self) -> Planes {
        self.planes(&self.src)
    }

    fn product(&self) -> Planes {
        self.planes(&self.dst)
    }

    fn planes(&self, tiling: &Tiling) -> Planes {
        let planes = if self.share_planes { Planes::by_plane } else { Planes::by_tile };
        planes(self.block, tiling.channels)
    }

    /// Transforms the weight to panels `[depth][vectors]` per plane.
    pub fn pack(&self, weight: &[f32], packed: &mut [f32], scratch: &mut [f32]) {
        let direct = &mut scratch[..self.pack.packed_len()];
        self.pack.pack(weight, direct);
        let (direct, packed) = (&*direct, Shared::new(&mut packed[..self.packed_len()]));
        (0..self.panels()).into_par_iter().for_each(|panel| {
            let kernel = PackPanel {
                winograd: self,
                panel,
                direct: direct.as_ptr(),
                packed: packed.as_ptr(),
            };
            // SAFETY: each panel reads and writes its own part of both slices, whose lengths were
            // checked.
            unsafe { self.isa.run(kernel) }
        });
    }

    /// Runs with packed weights.
    pub fn run(
        &self,
        src: &[f32],
        packed: &[f32],
        dst: &mut [f32],
        mode: Write,
        scratch: &mut [f32],
    ) {
        let images = self.tiles / (self.src.grid[0] * self.src.grid[1]);
        let len = |t: &Tiling| images * t.size[0] * t.size[1] * t.channels;
        assert_eq!((src.len(), dst.len()), (len(&self.src), len(&self.dst)));
        assert!(packed.len() >= self.packed_len());
        let dst = Shared::new(dst);
        if self.share_planes {
            self.run_by_planes(src, packed, dst, mode, scratch);
        } else {
            self.run_by_blocks(src, packed, dst, mode, scratch);
        }
    }

    fn run_by_blocks(
        &self,
        src: &[f32],
        packed: &[f32],
        dst: Shared<'_>,
        mode: Write,
        scratch: &mut [f32],
    ) {
        let slots = Slots::new(scratch, self.tasks, self.slot());
        let blocks = self.tiles.div_ceil(self.block);
        (0..self.tasks).into_par_iter().for_each(|task| {
            slots.with(|slot| {
                let (left, product) = slot.split_at_mut(self.left().len());
                let (left, product) = (Shared::new(left), Shared::new(product));
                for block in task * blocks / self.tasks..(task + 1) * blocks / self.tasks {
                    let start = block * self.block;
                    let tiles = start..(start + self.block).min(self.tiles);
                    // SAFETY: lengths were checked; tiles of different blocks have different
                    // pixels; the slot belongs to this task.
                    unsafe {
                        self.spread(src, left, start, tiles.clone());
                        self.multiply(left, packed, product, tiles.len(), 0..PLANES);
                        self.collect(product, dst, start, tiles, mode);
                    }
                }
            });
        });
    }

    fn run_by_planes(
        &self,
        src: &[f32],
        packed: &[f32],
        dst: Shared<'_>,
        mode: Write,
        scratch: &mut [f32],
    ) {
        let (left, product) = scratch[..self.slot()].split_at_mut(self.left().len());
        let (left, product) = (Shared::new(left), Shared::new(product));
        for start in (0..self.tiles).step_by(self.block) {
            let end = (start + self.block).min(self.tiles);
            let chunks = (end - start).div_ceil(SOME);
            let some = |chunk: usize| start + chunk * SOME..(start + (chunk + 1) * SOME).min(end);
            // SAFETY: lengths were checked; in each step tasks write the rows of their own tiles,
            // their own plane, and the pixels of their own tiles.
            unsafe {
                (0..chunks)
                    .into_par_iter()
                    .for_each(|chunk| self.spread(src, left, start, some(chunk)));
                (0..PLANES).into_par_iter().for_each(|plane| {
                    self.multiply(left, packed, product, end - start, plane..plane + 1);
                });
                (0..chunks).into_par_iter().for_each(|chunk| {
                    self.collect(product, dst, start, some(chunk), mode);
                });
            }
        }
    }

    /// Safety: `left` holds the planes of a block that starts at tile `start` and contains `tiles`.
    unsafe fn spread(&self, src: &[f32], left: Shared<'_>, start: usize, tiles: Range<usize>) {
        // SAFETY: the caller's conditions hold here too.
        unsafe {
            self.isa.run(Spread::<Inputs, POINTS> {
                tiling: &self.src,
                planes: self.left(),
                out: left.as_ptr().add((tiles.start - start) * self.left().row),
                tiles,
                pixels: src.as_ptr(),
                map: PhantomData,
            });
        }
    }

    /// Safety: `left` and `product` hold the planes of a block of at least `tiles`.
    unsafe fn multiply(
        &self,
        left: Shared<'_>,
        packed: &[f32],
        product: Shared<'_>,
        tiles: usize,
        planes: Range<usize>,
    ) {
        let (left, packed, product) = (left.as_ptr(), packed.as_ptr(), product.as_ptr());
        // SAFETY: the caller's conditions hold here too.
        unsafe { self.isa.run(Multiply { winograd: self, tiles, planes, left, packed, product }) }
    }

    /// Safety: as for `spread`.
    unsafe fn collect(
        &self,
        product: Shared<'_>,
        dst: Shared<'_>,
        start: usize,
        tiles: Range<usize>,
        mode: Write,
    ) {
        // SAFETY: the caller's conditions hold here too.
        unsafe {
            self.isa.run(Collect {
                tiling: &self.dst,
                planes: self.product(),
                from: product.as_ptr().add((tiles.start - start) * self.product().row),
                tiles,
                pixels: dst.as_ptr(),
                add: matches!(mode, Write::Add),
            });
        }
    }

    fn panels(&self) -> usize {
        self.dst.channels.div_ceil(2 * self.isa.lanes())
    }

    /// Floats per plane of the packed weight.
    fn plane(&self) -> usize {
        self.pack.panels_len() / 9
    }

    /// First channel of a panel, and its width padded to whole vectors.
    #[inline(always)]
    fn panel(&self, panel: usize) -> (usize, usize) {
        let start = panel * 2 * self.isa.lanes();
        (
            start,
            (self.dst.channels - start)
                .min(2 * self.isa.lanes())
                .next_multiple_of(self.isa.lanes()),
        )
    }
}

/// Transforms the taps of one panel with G on both sides.
struct PackPanel<'a> {
    winograd: &'a Winograd,
    panel: usize,
    direct: *const f32,
    packed: *mut f32,
}

impl Kernel for PackPanel<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector, const M: usize>(self) {
        let depth = self.winograd.src.channels;
        let (start, width) = self.winograd.panel(self.panel);
        for at in (0..depth * width).step_by(V::LANES) {
            // SAFETY: the panel has depth · width floats per tap and per plane.
            unsafe {
                let from = self.direct.add(start * depth * 9 + at);
                let tap = depth * width;
                let points =
                    both::<V, Taps, 3, POINTS>(&Regular { start: from, row: 3 * tap, column: tap });
                let to = self.packed.add(start * depth + at);
                for (i, row) in points.iter().enumerate() {
                    for (j, value) in row.iter().enumerate() {
                        value.store(to.add((i * POINTS + j) * self.winograd.plane()));
                    }
                }
            }
        }
    }
}

/// Multiplies plane by plane: `[tiles][depth] · [depth][width]`.
struct Multiply<'a> {
    winograd: &'a Winograd,
    tiles: usize,
    planes: Range<usize>,
    left: *const f32,
    packed: *const f32,
    product: *mut f32,
}

impl Kernel for Multiply<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector, const M: usize>(self) {
        let w = self.winograd;
        let (left, product) = (w.left(), w.product());
        for plane in self.planes.clone() {
            for panel in 0..w.panels() {
                let (start, width) = w.panel(panel);
                // SAFETY: planes and panels have the offsets that the plan's `run` and `pack` use.
                unsafe {
                    let from = self.left.add(plane * left.plane);
                    let packed = self.packed.add(plane * w.plane() + start * w.src.channels);
                    let to = self.product.add(plane * product.plane + start);
                    if width > V::LANES {
                        self.tiles::<V, M, 2>(from, left.row, packed, to, product.row);
                    } else {
                        self.tiles::<V, M, 1>(from, left.row, packed, to, product.row);
                    }
                }
            }
        }
    }
}

impl Multiply<'_> {
    #[inline(always)]
    unsafe fn tiles<V: Vector, const M: usize, const N: usize>(
        &self,
        left: *const f32,
        left_row: usize,
        packed: *const f32,
        to: *mut f32,
        to_row: usize,
    ) {
        for tile in (0..self.tiles).step_by(M) {
            // SAFETY: rows past the last tile repeat the last; only existing rows are written, and
            // rows of planes are padded to whole vectors.
            unsafe {
                let mut rows = [left; M];
                for (i, row) in rows.iter_mut().enumerate() {
                    *row = left.add((tile + i).min(self.tiles - 1) * left_row);
                }
                let acc =
                    accumulate([[V::splat(0.0); N]; M], &rows, self.winograd.src.channels, packed);
                for (i, acc) in acc.iter().enumerate().take(self.tiles - tile) {
                    write(acc, to.add((tile + i) * to_row), N * V::LANES, false);
                }
            }
        }
    }
}
