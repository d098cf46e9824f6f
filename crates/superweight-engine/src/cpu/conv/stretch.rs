//! Stretches: runs of pixels that a register tile of the weight gradient sums over.
//!
//! A tile has N columns, each with input channels of one tap. In a row of output pixels, one long
//! stretch has all columns inside the image. At its ends each pixel is a stretch by itself, where
//! outside columns read zeros. A stretch consists of pointers only, so its loop needs no border
//! tests.

use crate::geometry::ConvGeometry;

/// A vector of input channels of one tap.
#[derive(Clone, Copy, Default)]
pub(super) struct Column {
    pub tap: [usize; 2],
    pub channel: usize,
    pub width: usize,
}

/// Consecutive pixels: for each column a pointer and a step.
#[derive(Clone, Copy)]
pub(super) struct Stretch<const N: usize> {
    pub dy: *const f32,
    pub rows: [(*const f32, usize); N],
    pub count: usize,
}

/// Zeros for columns outside the image; as long as a vector of any instruction set.
static ZEROS: [f32; 16] = [0.0; 16];

impl<const N: usize> Stretch<N> {
    pub const NONE: Self = Self { dy: ZEROS.as_ptr(), rows: [(ZEROS.as_ptr(), 0); N], count: 0 };
}

/// A column's pixels in one row: pixel c is `c` steps after `start` for c in `from..to`, and zero
/// elsewhere.
#[derive(Clone, Copy)]
struct Source {
    start: *const f32,
    from: usize,
    to: usize,
}

impl Source {
    const NONE: Self = Self { start: ZEROS.as_ptr(), from: 0, to: 0 };
}

/// A row of output pixels. In `left..right` all columns that are inside for any pixel are inside.
pub(super) struct Line<'a, const N: usize> {
    geometry: &'a ConvGeometry,
    dy: *const f32,
    sources: [Source; N],
    left: usize,
    right: usize,
}

impl<'a, const N: usize> Line<'a, N> {
    /// Row `row` of image `image`. `x` points to the first channel of the group.
    #[inline(always)]
    pub fn new(
        g: &'a ConvGeometry,
        columns: &[Column; N],
        [image, row]: [usize; 2],
        x: *const f32,
        dy: *const f32,
    ) -> Self {
        let [oh, ow] = g.output();
        let (p, s) = (g.padding[1], g.stride[1]);
        let dy = dy.wrapping_add((image * oh + row) * ow * g.out_channels);
        let mut line = Self { geometry: g, dy, sources: [Source::NONE; N], left: 0, right: ow };
        for (source, column) in line.sources.iter_mut().zip(columns) {
            let row = (row * g.stride[0] + column.tap[0]).wrapping_sub(g.padding[0]);
            if row >= g.input[0] {
                continue;
            }
            // Pixels c with 0 ≤ c·s + t − p < w.
            let t = column.tap[1];
            source.from = p.saturating_sub(t).div_ceil(s).min(ow);
            source.to = (g.input[1] + p).saturating_sub(t).div_ceil(s).min(ow);
            let pixel = (image * g.input[0] + row) * g.input[1] + t;
            let start = x.wrapping_add(pixel * g.in_channels + column.channel);
            source.start = start.wrapping_sub(p * g.in_channels);
            line.left = line.left.max(source.from);
            line.right = line.right.min(source.to);
        }
        line.right = line.right.max(line.left);
        line
    }

    /// The first stretch at or after pixel `at` that is not all zeros, and its end.
    #[inline(always)]
    pub fn stretch(&self, mut at: usize) -> Option<(Stretch<N>, usize)> {
        let g = self.geometry;
        let step = g.stride[1] * g.in_channels;
        while at < g.output()[1] {
            let inner = at == self.left && self.left < self.right;
            let next = if inner { self.right } else { at + 1 };
            let dy = self.dy.wrapping_add(at * g.out_channels);
            let mut stretch = Stretch { dy, count: next - at, ..Stretch::NONE };
            let mut any = false;
            for (row, source) in stretch.rows.iter_mut().zip(&self.sources) {
                if (source.from..source.to).contains(&at) {
                    *row = (source.start.wrapping_add(at * step), step);
                    any = true;
                }
            }
            if any {
                return Some((stretch, next));
            }
            at = next;
        }
        None
    }
}
