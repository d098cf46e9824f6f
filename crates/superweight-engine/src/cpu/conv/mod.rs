//! Convolution by im2col and one GEMM per image and group.

use crate::geometry::ConvGeometry;
pub use crate::ops::Write;

/// A convolution of one geometry.
#[derive(Debug, Clone)]
pub struct Conv {
    g: ConvGeometry,
}

#[allow(missing_docs)]
impl Conv {
    pub fn new(g: ConvGeometry) -> Self {
        Self { g }
    }
    fn cols(&self) -> usize {
        self.g.kernel[0] * self.g.kernel[1] * (self.g.in_channels / self.g.groups)
    }
    fn pixels(&self) -> usize {
        let [h, w] = self.g.output();
        h * w
    }
    pub fn forward_scratch(&self) -> usize {
        self.cols() * self.pixels()
    }
    pub fn backward_data_scratch(&self) -> usize {
        self.cols() * self.pixels()
    }
    pub fn backward_weight_scratch(&self) -> usize {
        self.cols() * self.pixels()
    }
    fn each(&self, mut f: impl FnMut(usize, usize, usize)) {
        // f(pixel, col offset, input pixel) for valid taps
        let g = &self.g;
        let [oh, ow] = g.output();
        for i in 0..oh {
            for j in 0..ow {
                for a in 0..g.kernel[0] {
                    for b in 0..g.kernel[1] {
                        let (y, x) = (i * g.stride[0] + a, j * g.stride[1] + b);
                        if y < g.padding[0] || x < g.padding[1] {
                            continue;
                        }
                        let (y, x) = (y - g.padding[0], x - g.padding[1]);
                        if y < g.input[0] && x < g.input[1] {
                            f(i * ow + j, a * g.kernel[1] + b, y * g.input[1] + x);
                        }
                    }
                }
            }
        }
    }
    fn im2col(&self, x: &[f32], group: usize, cols: &mut [f32]) {
        let k = self.g.in_channels / self.g.groups;
        let width = self.cols();
        cols.fill(0.0);
        self.each(|p, t, q| {
            cols[p * width + t * k..][..k].copy_from_slice(&x[q * self.g.in_channels + group * k..][..k])
        });
    }
    pub fn forward(&self, x: &[f32], w: &[f32], y: &mut [f32], write: Write, scratch: &mut [f32]) {
        let g = &self.g;
        let (px, k) = (self.pixels(), self.cols());
        let o = g.out_channels / g.groups;
        let cols = &mut scratch[..px * k];
        for n in 0..g.batch {
            for group in 0..g.groups {
                self.im2col(&x[n * g.input_len() / g.batch..][..g.input_len() / g.batch], group, cols);
                let y = &mut y[n * px * g.out_channels..][..px * g.out_channels];
                gemm_(
                    px,
                    o,
                    k,
                    &mut y[group * o..],
                    g.out_channels,
                    1,
                    write == Write::Add,
                    cols,
                    k,
                    1,
                    &w[group * o * k..],
                    1,
                    k,
                );
            }
        }
    }
    pub fn backward_data(&self, dy: &[f32], w: &[f32], dx: &mut [f32], write: Write, scratch: &mut [f32]) {
        let g = &self.g;
        let (px, k) = (self.pixels(), self.cols());
        let (o, c) = (g.out_channels / g.groups, g.in_channels / g.groups);
        let cols = &mut scratch[..px * k];
        if write == Write::Set {
            dx.fill(0.0);
        }
        for n in 0..g.batch {
            let dx = &mut dx[n * g.input_len() / g.batch..][..g.input_len() / g.batch];
            for group in 0..g.groups {
                let dy = &dy[n * px * g.out_channels..][..px * g.out_channels];
                gemm_(
                    px,
                    k,
                    o,
                    cols,
                    k,
                    1,
                    false,
                    &dy[group * o..],
                    g.out_channels,
                    1,
                    &w[group * o * k..],
                    k,
                    1,
                );
                self.each(|p, t, q| {
                    let dx = &mut dx[q * g.in_channels + group * c..][..c];
                    dx.iter_mut().zip(&cols[p * k + t * c..][..c]).for_each(|(d, v)| *d += v);
                });
            }
        }
    }
    pub fn backward_weight(&self, x: &[f32], dy: &[f32], dw: &mut [f32], write: Write, scratch: &mut [f32]) {
        let g = &self.g;
        let (px, k) = (self.pixels(), self.cols());
        let o = g.out_channels / g.groups;
        let cols = &mut scratch[..px * k];
        if write == Write::Set {
            dw.fill(0.0);
        }
        for n in 0..g.batch {
            for group in 0..g.groups {
                self.im2col(&x[n * g.input_len() / g.batch..][..g.input_len() / g.batch], group, cols);
                let dy = &dy[n * px * g.out_channels..][..px * g.out_channels];
                gemm_(
                    o,
                    k,
                    px,
                    &mut dw[group * o * k..],
                    k,
                    1,
                    true,
                    &dy[group * o..],
                    1,
                    g.out_channels,
                    cols,
                    k,
                    1,
                );
            }
        }
    }
}

#[allow(clippy::too_many_arguments)]
fn gemm_(
    m: usize,
    n: usize,
    k: usize,
    dst: &mut [f32],
    dr: usize,
    dc: usize,
    add: bool,
    a: &[f32],
    ar: usize,
    ac: usize,
    b: &[f32],
    br: usize,
    bc: usize,
) {
    // SAFETY: all matrices lie inside their slices, as the callers size them by the geometry.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            dst.as_mut_ptr(),
            dc as isize,
            dr as isize,
            add,
            a.as_ptr(),
            ac as isize,
            ar as isize,
            b.as_ptr(),
            bc as isize,
            br as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        )
    }
}
