//! Convolution by definition with f64 accumulation. Tests compare all other algorithms with it.
//!
//! ```text
//! y[n, oh, ow, o] = Σ x[n, oh·s + kh − p, ow·s + kw − p, i] · w[o, kh, kw, i]
//! ```
//!
//! The two backward passes visit the same triples (x, w, y) and add to another member of the
//! triple.

use crate::device::buffer::Write;
use crate::geometry::ConvGeometry;

/// Computes y from x and w.
pub(crate) fn forward(g: &ConvGeometry, x: &[f32], w: &[f32], y: &mut [f32], mode: Write) {
    gather(y, mode, |sum| triples(g, |xi, wi, yi| sum(yi, f64::from(x[xi]) * f64::from(w[wi]))));
}

/// Computes dx from dy and w.
pub(crate) fn backward_data(g: &ConvGeometry, dy: &[f32], w: &[f32], dx: &mut [f32], mode: Write) {
    gather(dx, mode, |sum| triples(g, |xi, wi, yi| sum(xi, f64::from(dy[yi]) * f64::from(w[wi]))));
}

/// Computes dw from x and dy.
pub(crate) fn backward_weight(
    g: &ConvGeometry,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    mode: Write,
) {
    gather(dw, mode, |sum| triples(g, |xi, wi, yi| sum(wi, f64::from(x[xi]) * f64::from(dy[yi]))));
}

/// Sums in f64, then rounds once. This is the only kernel that allocates.
fn gather(dst: &mut [f32], mode: Write, run: impl FnOnce(&mut dyn FnMut(usize, f64))) {
    let mut sums = vec![0.0; dst.len()];
    run(&mut |at, value| sums[at] += value);
    for (dst, sum) in dst.iter_mut().zip(sums) {
        *dst = match mode {
            Write::Set => sum as f32,
            Write::Add => (f64::from(*dst) + sum) as f32,
        };
    }
}

/// Visits every (input, weight, output) triple that is multiplied.
fn triples(g: &ConvGeometry, mut visit: impl FnMut(usize, usize, usize)) {
    let [h, w] = g.input;
    let [oh, ow] = g.output();
    let (depth, width) = (g.in_channels / g.groups, g.out_channels / g.groups);
    for n in 0..g.batch {
        for (r, c) in (0..oh).flat_map(|r| (0..ow).map(move |c| (r, c))) {
            for (kh, kw) in (0..g.kernel[0]).flat_map(|kh| (0..g.kernel[1]).map(move |kw| (kh, kw)))
            {
                let (ih, iw) = (r * g.stride[0] + kh, c * g.stride[1] + kw);
                let Some(ih) = ih.checked_sub(g.padding[0]).filter(|&i| i < h) else { continue };
                let Some(iw) = iw.checked_sub(g.padding[1]).filter(|&i| i < w) else { continue };
                for o in 0..g.out_channels {
                    let group = o / width;
                    for i in 0..depth {
                        visit(
                            ((n * h + ih) * w + iw) * g.in_channels + group * depth + i,
                            ((o * g.kernel[0] + kh) * g.kernel[1] + kw) * depth + i,
                            ((n * oh + r) * ow + c) * g.out_channels + o,
                        );
                    }
                }
            }
        }
    }
}
