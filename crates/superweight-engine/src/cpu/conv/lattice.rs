//! Lattice: which source pixels a destination pixel sums, for every direction and stride.
//!
//! ```text
//! dst[n, o + S·p] (+)= Σ_t W_t · src[n, o' + s·p + t]     p: a lattice of pixels, t: taps
//! ```
//!
//! The forward pass is one lattice with s = stride and S = 1. Backward to the data of a convolution
//! with stride S is S² lattices with s = 1, one per residue of the pixel modulo S. Each has only
//! the taps that reach it, so no multiplications are wasted on inserted zeros.

use crate::geometry::ConvGeometry;

/// Destination pixels that sum over the same taps, and these taps: all pixels of y in the forward
/// pass, the pixels of one residue modulo the stride for dx.
#[derive(Clone, Debug)]
pub(super) struct Lattice {
    pub batch: usize,
    pub src_size: [usize; 2],
    /// Distance between source pixels, in elements.
    pub pitch: usize,
    src_origin: [isize; 2],
    src_step: [usize; 2],
    pub dst_size: [usize; 2],
    dst_origin: [usize; 2],
    dst_step: [usize; 2],
    /// Number of destination pixels, and of taps, vertically and horizontally.
    pub grid: [usize; 2],
    pub taps: [usize; 2],
    /// Position in the kernel of the first tap, and distance between taps.
    tap_origin: [usize; 2],
    tap_step: [isize; 2],
}

impl Lattice {
    /// Largest kernel height and width. The validity of a tap is a bit of a u64.
    pub const MOST_TAPS: usize = 64;

    /// Lattice for y from x.
    pub fn forward(g: &ConvGeometry) -> Self {
        Self {
            batch: g.batch,
            src_size: g.input,
            pitch: g.in_channels,
            src_origin: g.padding.map(|p| -(p as isize)),
            src_step: g.stride,
            dst_size: g.output(),
            dst_origin: [0, 0],
            dst_step: [1, 1],
            grid: g.output(),
            taps: g.kernel,
            tap_origin: [0, 0],
            tap_step: [1, 1],
        }
    }

    /// Lattices for dx from dy, one per residue of the pixel modulo the stride. Some may have no
    /// taps.
    pub fn backward(g: &ConvGeometry) -> Vec<Self> {
        let residues = (0..g.stride[0]).flat_map(|a| (0..g.stride[1]).map(move |b| [a, b]));
        let lattices = residues.map(|residue| Self::residue(g, residue));
        lattices.filter(|lattice| lattice.pixels() > 0).collect()
    }

    /// Pixel i = a + s·r receives dy[(i + p − k) / s] for k ≡ a + p (mod s): k = k₀ + s·j, j < J.
    /// In the order t = J − 1 − j the source row increases with t.
    fn residue(g: &ConvGeometry, residue: [usize; 2]) -> Self {
        let first = [0, 1].map(|d| (residue[d] + g.padding[d]) % g.stride[d]);
        let count = [0, 1].map(|d| g.kernel[d].saturating_sub(first[d]).div_ceil(g.stride[d]));
        let origin = [0, 1].map(|d| {
            let offset = (residue[d] + g.padding[d] - first[d]) / g.stride[d];
            offset as isize - (count[d] as isize - 1)
        });
        Self {
            batch: g.batch,
            src_size: g.output(),
            pitch: g.out_channels,
            src_origin: origin,
            src_step: [1, 1],
            dst_size: g.input,
            dst_origin: residue,
            dst_step: g.stride,
            grid: [0, 1].map(|d| g.input[d].saturating_sub(residue[d]).div_ceil(g.stride[d])),
            taps: count,
            tap_origin: [0, 1].map(|d| first[d] + g.stride[d] * count[d].saturating_sub(1)),
            tap_step: g.stride.map(|s| -(s as isize)),
        }
    }

    /// Number of pixels over all images.
    pub fn pixels(&self) -> usize {
        self.batch * self.grid[0] * self.grid[1]
    }

    /// Row and column of a tap in the kernel.
    pub fn kernel_tap(&self, tap: [usize; 2]) -> [usize; 2] {
        [0, 1].map(|d| self.tap_origin[d].wrapping_add_signed(tap[d] as isize * self.tap_step[d]))
    }
}

/// A pixel of the lattice: the source offset of its first tap, its index in the destination, and
/// one bit per row and column of taps inside the source.
#[derive(Clone, Copy)]
pub(super) struct Pixel {
    src: isize,
    pub dst: usize,
    valid: [u64; 2],
}

/// Up to M consecutive pixels of the flattened lattice, across rows and images.
pub(super) struct Run<const M: usize> {
    pub pixels: [Pixel; M],
    pub count: usize,
    /// Taps that all pixels have, and taps that any pixel has.
    all: [u64; 2],
    any: [u64; 2],
}

impl<const M: usize> Run<M> {
    /// Returns one pointer per pixel for a tap, or to `zeros` where the tap is in the padding.
    /// Returns `None` if it is in the padding for every pixel.
    #[inline(always)]
    pub fn rows(
        &self,
        lattice: &Lattice,
        [th, tw]: [usize; 2],
        src: *const f32,
        zeros: *const f32,
    ) -> Option<[*const f32; M]> {
        if self.any[0] >> th & self.any[1] >> tw & 1 == 0 {
            return None;
        }
        let src = src.wrapping_add((th * lattice.src_size[1] + tw) * lattice.pitch);
        let mut rows = [zeros; M];
        if self.all[0] >> th & self.all[1] >> tw & 1 == 1 {
            for (row, pixel) in rows.iter_mut().zip(&self.pixels) {
                *row = src.wrapping_offset(pixel.src);
            }
        } else {
            for (row, pixel) in rows.iter_mut().zip(&self.pixels) {
                if pixel.valid[0] >> th & pixel.valid[1] >> tw & 1 == 1 {
                    *row = src.wrapping_offset(pixel.src);
                }
            }
        }
        Some(rows)
    }
}

/// Position in the flattened lattice.
pub(super) struct Cursor {
    image: usize,
    row: usize,
    column: usize,
}

impl Cursor {
    #[inline(always)]
    pub fn new(l: &Lattice, index: usize) -> Self {
        let (image, rest) = (index / (l.grid[0] * l.grid[1]), index % (l.grid[0] * l.grid[1]));
        Self { image, row: rest / l.grid[1], column: rest % l.grid[1] }
    }

    /// Advances over the next `count ≤ M` pixels.
    #[inline(always)]
    pub fn next<const M: usize>(&mut self, l: &Lattice, count: usize) -> Run<M> {
        if count == M
            && self.column + M <= l.grid[1]
            && let Some(run) = self.inner(l)
        {
            return run;
        }
        let mut pixels = [Pixel { src: 0, dst: 0, valid: [0; 2] }; M];
        let (mut all, mut any) = ([u64::MAX; 2], [0; 2]);
        for pixel in pixels.iter_mut().take(count) {
            *pixel = self.pixel(l);
            self.advance(l);
            for d in 0..2 {
                all[d] &= pixel.valid[d];
                any[d] |= pixel.valid[d];
            }
        }
        if count < M {
            all = [0; 2];
        }
        Run { pixels, count, all, any }
    }

    /// Advances over the next M pixels of this row, if all their taps are inside. Then the first
    /// pixel determines the others.
    #[inline(always)]
    fn inner<const M: usize>(&mut self, l: &Lattice) -> Option<Run<M>> {
        let at = [self.row, self.column];
        let first = [0, 1].map(|d| (at[d] * l.src_step[d]) as isize + l.src_origin[d]);
        let last = [first[0], first[1] + ((M - 1) * l.src_step[1]) as isize];
        let inside =
            |d: usize| first[d] >= 0 && last[d] + l.taps[d] as isize <= l.src_size[d] as isize;
        if !(inside(0) && inside(1)) {
            return None;
        }
        let mut pixel = Pixel { valid: [u64::MAX; 2], ..self.pixel(l) };
        let mut pixels = [pixel; M];
        for each in &mut pixels {
            *each = pixel;
            pixel.src += (l.src_step[1] * l.pitch) as isize;
            pixel.dst += l.dst_step[1];
        }
        self.column += M - 1;
        self.advance(l);
        Some(Run { pixels, count: M, all: [u64::MAX; 2], any: [u64::MAX; 2] })
    }

    #[inline(always)]
    fn advance(&mut self, l: &Lattice) {
        self.column += 1;
        if self.column == l.grid[1] {
            self.column = 0;
            self.row += 1;
            if self.row == l.grid[0] {
                self.row = 0;
                self.image += 1;
            }
        }
    }

    #[inline(always)]
    fn pixel(&self, l: &Lattice) -> Pixel {
        let at = [self.row, self.column];
        let [h, w] = [0, 1].map(|d| (at[d] * l.src_step[d]) as isize + l.src_origin[d]);
        let [dh, dw] = [0, 1].map(|d| at[d] * l.dst_step[d] + l.dst_origin[d]);
        Pixel {
            src: (((self.image * l.src_size[0]) as isize + h) * l.src_size[1] as isize + w)
                * l.pitch as isize,
            dst: (self.image * l.dst_size[0] + dh) * l.dst_size[1] + dw,
            valid: [inside(h, l.src_size[0]), inside(w, l.src_size[1])],
        }
    }
}

/// Bit t is set if `0 ≤ start + t < size`.
#[inline(always)]
fn inside(start: isize, size: usize) -> u64 {
    let from = (-start).max(0);
    let to = (size as isize - start).clamp(0, 64);
    if from >= to {
        return 0;
    }
    (u64::MAX >> (64 - to)) & (u64::MAX << from)
}
