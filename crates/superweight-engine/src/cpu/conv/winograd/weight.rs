//! Winograd gradient of the weight: dw from x and dy, the adjoint of the forward product.
//!
//! ```text
//! dw = Gᵀ [ Σ_tiles (A dy-tile Aᵀ) ⊗ (Bᵀ x-tile B) ] G
//! ```
//!
//! Each of the 36 planes is a sum of outer products over tiles. With few channels the sums are
//! small and stay in the cache, so each task takes a part of the tiles through all steps, with its
//! own sums. With many channels the sums are large. Then all tiles are transformed first and tasks
//! share the planes. The geometry determines which of the two is used, and the number of parts.

use core::marker::PhantomData;
use core::ops::Range;

use rayon::prelude::*;

use super::product::Winograd;
use super::tiling::{PLANES, POINTS, Planes, STEP, Spread, Tiling};
use super::transform::{Inputs, OutputGradients, Patch, TapGradients, both};
use crate::cpu::conv::tile::write;
use crate::cpu::share::{Shared, Slots};
use crate::cpu::simd::{Isa, Kernel, Vector};
use crate::device::buffer::Write;
use crate::geometry::ConvGeometry;

/// Plan of the gradient of a weight.
#[derive(Clone, Debug)]
pub(in crate::cpu::conv) struct WinogradWeight {
    isa: Isa,
    x: Tiling,
    dy: Tiling,
    tiles: usize,
    /// Tiles that are in planes at the same time.
    block: usize,
    /// Number of separate sums. With one, tasks share planes instead.
    parts: usize,
}

/// Floats in the planes of a block if every task has its own: half of a 2 MiB L2 cache.
const BLOCK: usize = 1 << 17;
/// Floats in the planes of a block that all tasks share: 16 MiB.
const SHARED_BLOCK: usize = 1 << 22;
/// Largest number of floats in all separate sums.
const SUMS: usize = 5 << 17;
/// Tiles per task that only transforms.
const SPREAD: usize = 16;

impl WinogradWeight {
    /// Returns true if the algorithm is faster than the direct sum.
    ///
    /// Direct time / Winograd time, measured as in the module's table: 64 channels 0.7 at 4 tiles,
    /// 1.6 at 16, 2.0 at 64, 3.2 at 512; 256 channels 1.9 at 16 tiles; 16 channels 0.5 at 16 tiles,
    /// 1.0 at 64, 1.9 at 8192.
    pub fn wins(g: &ConvGeometry) -> bool {
        let tiles = g.batch * g.output().iter().map(|n| n.div_ceil(STEP)).product::<usize>();
        Winograd::applies(g) && tiles >= 16 && tiles * g.in_channels.min(g.out_channels) >= 1024
    }

    pub fn new(g: &ConvGeometry, isa: Isa) -> Self {
        let grid = g.output().map(|n| n.div_ceil(STEP));
        let origin = g.padding.map(|p| -(p as isize));
        let x = Tiling { size: g.input, channels: g.in_channels, origin, grid };
        let dy = Tiling { size: g.output(), channels: g.out_channels, origin: [0, 0], grid };
        let tiles = g.batch * grid[0] * grid[1];
        let per_tile = PLANES * (x.channels + dy.channels);
        let sums = Planes::by_plane(dy.channels, x.channels).len();
        let parts = (SUMS / sums).min(tiles / 32).clamp(1, 16);
        let parts = if parts > 1 { 1 << parts.ilog2() } else { 1 };
        let block = if parts > 1 { BLOCK } else { SHARED_BLOCK } / per_tile;
        Self { isa, x, dy, tiles, block: block.clamp(32, 512).min(tiles.div_ceil(parts)), parts }
    }

    pub fn scratch(&self) -> usize {
        self.parts * (self.sums().len() + self.slot())
    }

    fn slot(&self) -> usize {
        self.x_planes().len() + self.dy_planes().len()
    }

    fn x_planes(&self) -> Planes {
        self.planes(&self.x)
    }

    fn dy_planes(&self) -> Planes {
        self.planes(&self.dy)
    }

    fn planes(&self, tiling: &Tiling) -> Planes {
        let small = self.x.channels + self.dy.channels <= 64;
        let planes = if small { Planes::by_tile } else { Planes::by_plane };
        planes(self.block, tiling.channels)
    }

    /// Layout of the sums, `[out][in]` per plane.
    fn sums(&self) -> Planes {
        Planes::by_plane(self.dy.channels, self.x.channels)
    }

    pub fn run(&self, x: &[f32], dy: &[f32], dw: &mut [f32], mode: Write, scratch: &mut [f32]) {
        let images = self.tiles / (self.x.grid[0] * self.x.grid[1]);
        let len = |t: &Tiling| images * t.size[0] * t.size[1] * t.channels;
        assert_eq!((x.len(), dy.len()), (len(&self.x), len(&self.dy)));
        assert_eq!(dw.len(), self.dy.channels * 9 * self.x.channels);
        let (sums, planes) = scratch[..self.scratch()].split_at_mut(self.parts * self.sums().len());
        if self.parts > 1 {
            self.sum_by_parts(x, dy, sums, planes);
        } else {
            self.sum_by_planes(x, dy, sums, planes);
        }
        let row = 9 * self.x.channels;
        dw.par_chunks_mut(row).enumerate().with_min_len(8).for_each(|(channel, dw)| {
            let finish =
                Finish { weight: self, channel, sums: sums.as_ptr(), dw: dw.as_mut_ptr(), mode };
            // SAFETY: `sums` holds all parts; `dw` is one output channel.
            unsafe { self.isa.run(finish) }
        });
    }

    fn sum_by_parts(&self, x: &[f32], dy: &[f32], sums: &mut [f32], planes: &mut [f32]) {
        let sums = Shared::new(sums);
        let slots = Slots::new(planes, self.parts, self.slot());
        (0..self.parts).into_par_iter().for_each(|part| {
            // SAFETY: parts do not overlap.
            let sums = unsafe { sums.part(part * self.sums().len(), self.sums().len()) };
            slots.with(|slot| {
                let (left, right) = slot.split_at_mut(self.dy_planes().len());
                let end = (part + 1) * self.tiles / self.parts;
                let first = part * self.tiles / self.parts;
                for start in (first..end).step_by(self.block) {
                    let tiles = start..(start + self.block).min(end);
                    // SAFETY: the planes belong to this task and hold a block; the sums belong to
                    // this part.
                    unsafe {
                        self.spread(x, dy, tiles.clone(), left.as_mut_ptr(), right.as_mut_ptr());
                        self.isa.run(Sum {
                            weight: self,
                            tiles: tiles.len(),
                            planes: 0..PLANES,
                            left: left.as_ptr(),
                            right: right.as_ptr(),
                            sums: sums.as_mut_ptr(),
                            fresh: start == first,
                        });
                    }
                }
            });
        });
    }

    fn sum_by_planes(&self, x: &[f32], dy: &[f32], sums: &mut [f32], planes: &mut [f32]) {
        let (left, right) = planes.split_at_mut(self.dy_planes().len());
        let (left, right, sums) = (Shared::new(left), Shared::new(right), Shared::new(sums));
        for start in (0..self.tiles).step_by(self.block) {
            let tiles = start..(start + self.block).min(self.tiles);
            (0..tiles.len().div_ceil(SPREAD)).into_par_iter().for_each(|task| {
                let first = task * SPREAD;
                let some = start + first..(start + first + SPREAD).min(tiles.end);
                // SAFETY: tasks write the rows of their own tiles.
                unsafe {
                    let left = left.as_ptr().add(first * self.dy_planes().row);
                    self.spread(x, dy, some, left, right.as_ptr().add(first * self.x_planes().row));
                }
            });
            (0..PLANES).into_par_iter().for_each(|plane| {
                let sum = Sum {
                    weight: self,
                    tiles: tiles.len(),
                    planes: plane..plane + 1,
                    left: left.as_ptr(),
                    right: right.as_ptr(),
                    sums: sums.as_ptr(),
                    fresh: start == 0,
                };
                // SAFETY: tasks read the transformed tiles and write the sums of their own plane.
                unsafe { self.isa.run(sum) }
            });
        }
    }

    /// Safety: the planes are large enough for the tiles, and no other task uses these rows.
    unsafe fn spread(
        &self,
        x: &[f32],
        dy: &[f32],
        tiles: Range<usize>,
        left: *mut f32,
        right: *mut f32,
    ) {
        // SAFETY: the caller's conditions hold here too; `run` checked the activations' lengths.
        unsafe {
            self.isa.run(Spread::<Inputs, POINTS> {
                tiling: &self.x,
                tiles: tiles.clone(),
                pixels: x.as_ptr(),
                planes: self.x_planes(),
                out: right,
                map: PhantomData,
            });
            self.isa.run(Spread::<OutputGradients, STEP> {
                tiling: &self.dy,
                tiles,
                pixels: dy.as_ptr(),
                planes: self.dy_planes(),
                out: left,
                map: PhantomData,
            });
        }
    }
}

/// Computes `sums[plane] += Σ_tiles left ⊗ right`.
struct Sum<'a> {
    weight: &'a WinogradWeight,
    tiles: usize,
    planes: Range<usize>,
    left: *const f32,
    right: *const f32,
    sums: *mut f32,
    fresh: bool,
}

impl Kernel for Sum<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector, const M: usize>(self) {
        let sums = self.weight.sums();
        let wide = V::LANES == 16;
        for plane in self.planes.clone() {
            let mut column = 0;
            while column < sums.row {
                let left = (sums.row - column) / V::LANES;
                // SAFETY: the caller's conditions hold here too; N vectors of the row remain.
                column += V::LANES
                    * unsafe {
                        if wide && (left == 3 || left > 4) {
                            self.columns::<V, M, 3>(plane, column)
                        } else if left >= 2 {
                            self.columns::<V, M, 2>(plane, column)
                        } else {
                            self.columns::<V, M, 1>(plane, column)
                        }
                    };
            }
        }
    }
}

impl Sum<'_> {
    #[inline(always)]
    unsafe fn columns<V: Vector, const M: usize, const N: usize>(
        &self,
        plane: usize,
        column: usize,
    ) -> usize {
        let w = self.weight;
        let (left, right, sums) = (w.dy_planes(), w.x_planes(), w.sums());
        for channel in (0..w.dy.channels).step_by(M) {
            // SAFETY: planes hold `tiles` rows, padded to vectors. A tile of rows may reach past
            // the last channel into the plane's padding, but only existing channels are written.
            unsafe {
                let mut dy = self.left.add(plane * left.plane + channel);
                let mut x = self.right.add(plane * right.plane + column);
                let mut acc = [[V::splat(0.0); N]; M];
                for _ in 0..self.tiles {
                    let mut vectors = [V::splat(0.0); N];
                    for (j, vector) in vectors.iter_mut().enumerate() {
                        *vector = V::load(x.add(j * V::LANES));
                    }
                    for (i, acc) in acc.iter_mut().enumerate() {
                        let value = V::splat(*dy.add(i));
                        for (acc, vector) in acc.iter_mut().zip(vectors) {
                            *acc = value.mul_add(vector, *acc);
                        }
                    }
                    dy = dy.wrapping_add(left.row);
                    x = x.wrapping_add(right.row);
                }
                let to = self.sums.add(plane * sums.plane + channel * sums.row + column);
                for (i, acc) in acc.iter().enumerate().take(w.dy.channels - channel) {
                    write(acc, to.add(i * sums.row), N * V::LANES, !self.fresh);
                }
            }
        }
        N
    }
}

/// The points of one vector of weights, with the parts added in order.
struct Parts {
    start: *const f32,
    sums: Planes,
    parts: usize,
}

impl<V: Vector> Patch<V> for Parts {
    #[inline(always)]
    unsafe fn load(&self, row: usize, column: usize) -> V {
        // SAFETY: `parts` blocks of sums follow one another.
        unsafe {
            let from = self.start.add((row * POINTS + column) * self.sums.plane);
            let mut sum = V::load(from);
            for part in 1..self.parts {
                sum = sum.add(V::load(from.add(part * self.sums.len())));
            }
            sum
        }
    }
}

/// Computes dw of one output channel: adds the parts in order, then applies Gᵀ · G.
struct Finish<'a> {
    weight: &'a WinogradWeight,
    channel: usize,
    sums: *const f32,
    dw: *mut f32,
    mode: Write,
}

impl Kernel for Finish<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector, const M: usize>(self) {
        let (w, sums) = (self.weight, self.weight.sums());
        let channels = w.x.channels;
        for column in (0..channels).step_by(V::LANES) {
            // SAFETY: rows of sums are padded to whole vectors; only existing channels of dw are
            // written.
            unsafe {
                let start = self.sums.add(self.channel * sums.row + column);
                let taps =
                    both::<V, TapGradients, POINTS, 3>(&Parts { start, sums, parts: w.parts });
                for (i, row) in taps.iter().enumerate() {
                    for (j, &value) in row.iter().enumerate() {
                        let to = self.dw.add((i * 3 + j) * channels + column);
                        write(&[value], to, channels - column, matches!(self.mode, Write::Add));
                    }
                }
            }
        }
    }
}
