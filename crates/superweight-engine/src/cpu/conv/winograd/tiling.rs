//! Images cut into 4×4 tiles, and the way to the 36 planes and back.
//!
//! A plane holds one of the 36 points for a block of tiles: `[tile][channel]`, the left matrix of a product.
//! Planes start a cache line off a multiple of the tile's size, or their 36 stores would fall into one set of
//! the cache.

use core::ops::Range;

use super::transform::{Linear, Outputs, both};
use crate::cpu::simd::{Kernel, Vector};

/// Outputs of a tile, along one side.
pub(super) const STEP: usize = 4;
/// Points, along one side, and in all.
pub(super) const POINTS: usize = 6;
pub(super) const PLANES: usize = POINTS * POINTS;
/// No vector is longer; rows of planes are padded to a multiple.
const ALIGN: usize = 16;

/// Tiles over a batch of images: tile (r, c) of an image starts at pixel `origin + 4 · (r, c)`.
#[derive(Clone, Debug)]
pub(super) struct Tiling {
    pub size: [usize; 2],
    pub channels: usize,
    pub origin: [isize; 2],
    pub grid: [usize; 2],
}

/// The shape of a block's planes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planes {
    /// From tile to tile, and from plane to plane.
    pub row: usize,
    pub plane: usize,
}

impl Planes {
    pub fn new(tiles: usize, channels: usize) -> Self {
        let row = channels.next_multiple_of(ALIGN);
        Self { row, plane: tiles * row + ALIGN }
    }

    pub fn len(&self) -> usize {
        PLANES * self.plane
    }
}

impl Tiling {
    /// First pixel of a tile, and the index of its image.
    #[inline(always)]
    fn locate(&self, tile: usize) -> (usize, [isize; 2]) {
        let per_image = self.grid[0] * self.grid[1];
        let (image, rest) = (tile / per_image, tile % per_image);
        let at = [rest / self.grid[1], rest % self.grid[1]];
        (image, [0, 1].map(|d| self.origin[d] + (at[d] * STEP) as isize))
    }

    /// Offset of a pixel that exists.
    #[inline(always)]
    fn pixel(&self, image: usize, row: usize, column: usize) -> usize {
        ((image * self.size[0] + row) * self.size[1] + column) * self.channels
    }
}

/// Pixels to planes: patches of P×P pixels, zero outside of the image, mapped by L on both sides.
pub(super) struct Spread<'a, L, const P: usize> {
    pub tiling: &'a Tiling,
    pub tiles: Range<usize>,
    pub pixels: *const f32,
    pub planes: Planes,
    pub out: *mut f32,
    pub map: L,
}

impl<L: Linear<P, POINTS>, const P: usize> Kernel for Spread<'_, L, P> {
    #[inline(always)]
    unsafe fn run<V: Vector, const M: usize>(self) {
        let t = self.tiling;
        for (index, tile) in self.tiles.clone().enumerate() {
            let (image, [top, left]) = t.locate(tile);
            let inside =
                top >= 0 && left >= 0 && top as usize + P <= t.size[0] && left as usize + P <= t.size[1];
            for channel in (0..t.channels).step_by(V::LANES) {
                let width = (t.channels - channel).min(V::LANES);
                // SAFETY: pixels are read only where they are inside the image, `width` channels each; the
                // planes have a padded row per tile of the block.
                unsafe {
                    let mut patch = [[V::splat(0.0); P]; P];
                    if inside && width == V::LANES {
                        let start = self.pixels.add(t.pixel(image, top as usize, left as usize) + channel);
                        for (i, row) in patch.iter_mut().enumerate() {
                            for (j, value) in row.iter_mut().enumerate() {
                                *value = V::load(start.add((i * t.size[1] + j) * t.channels));
                            }
                        }
                    } else {
                        for (i, row) in patch.iter_mut().enumerate() {
                            let r = top.wrapping_add_unsigned(i) as usize;
                            for (j, value) in row.iter_mut().enumerate() {
                                let c = left.wrapping_add_unsigned(j) as usize;
                                if r < t.size[0] && c < t.size[1] {
                                    let at = self.pixels.add(t.pixel(image, r, c) + channel);
                                    *value = if width == V::LANES {
                                        V::load(at)
                                    } else {
                                        V::load_first(at, width)
                                    };
                                }
                            }
                        }
                    }
                    let points = both::<V, L, P, POINTS>(&patch);
                    let out = self.out.add(index * self.planes.row + channel);
                    for (i, row) in points.iter().enumerate() {
                        for (j, value) in row.iter().enumerate() {
                            value.store(out.add((i * POINTS + j) * self.planes.plane));
                        }
                    }
                }
            }
        }
    }
}

/// Planes to pixels: Aᵀ on both sides, the part of the tile inside the image written or added.
pub(super) struct Collect<'a> {
    pub tiling: &'a Tiling,
    pub tiles: Range<usize>,
    pub pixels: *mut f32,
    pub planes: Planes,
    pub from: *const f32,
    pub add: bool,
}

impl Kernel for Collect<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector, const M: usize>(self) {
        let t = self.tiling;
        for (index, tile) in self.tiles.clone().enumerate() {
            let (image, [top, left]) = t.locate(tile);
            let (top, left) = (top as usize, left as usize);
            let rows = (t.size[0] - top).min(STEP);
            let columns = (t.size[1] - left).min(STEP);
            for channel in (0..t.channels).step_by(V::LANES) {
                let width = (t.channels - channel).min(V::LANES);
                // SAFETY: the planes have a padded row per tile; pixels are inside by `rows` and `columns`.
                unsafe {
                    let from = self.from.add(index * self.planes.row + channel);
                    let mut points = [[V::splat(0.0); POINTS]; POINTS];
                    for (i, row) in points.iter_mut().enumerate() {
                        for (j, value) in row.iter_mut().enumerate() {
                            *value = V::load(from.add((i * POINTS + j) * self.planes.plane));
                        }
                    }
                    let out = both::<V, Outputs, POINTS, STEP>(&points);
                    let start = self.pixels.add(t.pixel(image, top, left) + channel);
                    for (i, row) in out.iter().enumerate().take(rows) {
                        for (j, &value) in row.iter().enumerate().take(columns) {
                            let at = start.add((i * t.size[1] + j) * t.channels);
                            crate::cpu::conv::tile::write(&[value], at, width, self.add);
                        }
                    }
                }
            }
        }
    }
}
