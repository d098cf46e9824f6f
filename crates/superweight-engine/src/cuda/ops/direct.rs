//! Direct convolution by kernels of this crate: depthwise layers, and convolutions without a cuDNN
//! plan.

use crate::cuda::context::Context;
use crate::cuda::launch::{Grid, Kernels, launch};
use crate::cuda::view::adds;
use crate::device::buffer::Write;
use crate::geometry::ConvGeometry;

/// Number of blocks per multiprocessor for the gradient of a weight.
const BUSY: usize = 8;
/// Smallest number of outputs per split of that gradient.
const SPLIT: usize = 256;

/// Sizes in the order of the kernels' struct.
#[repr(C)]
#[derive(Clone, Copy)]
struct Sizes([u32; 14]);

impl Sizes {
    fn of(g: &ConvGeometry) -> Self {
        let [oh, ow] = g.output();
        let ([h, w], [kh, kw], [sh, sw], [ph, pw]) = (g.input, g.kernel, g.stride, g.padding);
        let (c, k) = (g.in_channels, g.out_channels);
        Self(
            [g.batch, h, w, c, k, oh, ow, kh, kw, sh, sw, ph, pw, g.groups].map(|size| size as u32),
        )
    }
}

/// Computes `y (+)= conv(x, w)`.
///
/// # Safety
///
/// The pointers are to tensors of the geometry's sizes, in the precision that the kernels were
/// compiled for.
pub(in crate::cuda) unsafe fn forward(
    kernels: &Kernels,
    g: &ConvGeometry,
    write: Write,
    [x, w, y]: [u64; 3],
) {
    let (grid, sizes, add) = (kernels.flat(g.output_len()), Sizes::of(g), adds(write));
    // SAFETY: guaranteed by the caller.
    unsafe { launch!(kernels, "conv_forward", grid, x, w, y, sizes, add) }
}

/// Computes `dx (+)= convᵀ(dy, w)`.
///
/// # Safety
///
/// As for [`forward`].
pub(in crate::cuda) unsafe fn backward_data(
    kernels: &Kernels,
    g: &ConvGeometry,
    write: Write,
    [dy, w, dx]: [u64; 3],
) {
    let (grid, sizes, add) = (kernels.flat(g.input_len()), Sizes::of(g), adds(write));
    // SAFETY: guaranteed by the caller.
    unsafe { launch!(kernels, "conv_backward_data", grid, dy, w, dx, sizes, add) }
}

fn weight_grid(context: &Context, g: &ConvGeometry) -> Grid {
    let inner = g.in_channels / g.groups;
    let tiles =
        if inner == 1 { g.out_channels.div_ceil(32) } else { g.out_channels * inner.div_ceil(32) };
    let positions = g.kernel[0] * g.kernel[1];
    let outputs = g.output_len() / g.out_channels;
    let wanted = (context.properties.multiprocessors * BUSY).div_ceil(tiles * positions);
    let splits = wanted.clamp(1, outputs.div_ceil(SPLIT));
    Grid::new([tiles as u32, positions as u32, splits as u32], [32, 8, 1])
}

/// Bytes of scratch memory for [`backward_weight`].
pub(in crate::cuda) fn weight_scratch(context: &Context, g: &ConvGeometry) -> usize {
    weight_grid(context, g).blocks[2] as usize * g.weight_len() * 4
}

/// Computes `dw (+)= x ⋆ dy`.
///
/// # Safety
///
/// As for [`forward`]; the scratch memory has the size from [`weight_scratch`].
pub(in crate::cuda) unsafe fn backward_weight(
    context: &Context,
    kernels: &Kernels,
    g: &ConvGeometry,
    write: Write,
    [x, dy, dw]: [u64; 3],
    scratch: u64,
) {
    let grid = weight_grid(context, g);
    let (sizes, n, splits) = (Sizes::of(g), g.weight_len(), grid.blocks[2]);
    let (flat, add) = (kernels.flat(n), adds(write));
    // SAFETY: guaranteed by the caller.
    unsafe {
        launch!(kernels, "conv_backward_weight", grid, x, dy, scratch, sizes);
        launch!(kernels, "add_splits", flat, scratch, splits, dw, n as u64, add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::conv::reference;
    use crate::cuda::on_device::{Buffer, error, opened, random, rounded};
    use crate::cuda::{CudaDevice, Precision};

    /// Plain, strided, grouped and depthwise convolutions, odd numbers of channels, and enough
    /// outputs for many splits.
    fn geometries() -> Vec<ConvGeometry> {
        let geometry = |batch,
                        input,
                        [in_channels, out_channels]: [usize; 2],
                        kernel,
                        stride,
                        padding,
                        groups| {
            let (kernel, stride, padding) = ([kernel; 2], [stride; 2], [padding; 2]);
            ConvGeometry {
                batch,
                input,
                in_channels,
                out_channels,
                kernel,
                stride,
                padding,
                groups,
            }
        };
        vec![
            geometry(2, [7, 5], [5, 7], 3, 1, 1, 1),
            geometry(4, [16, 16], [40, 33], 3, 2, 1, 1),
            geometry(2, [6, 6], [12, 24], 3, 1, 1, 3),
            geometry(3, [9, 8], [20, 20], 3, 1, 1, 20),
            geometry(2, [8, 8], [33, 66], 5, 2, 2, 33),
            geometry(2, [12, 12], [1, 9], 3, 1, 0, 1),
        ]
    }

    #[test]
    fn direct_kernels_match_the_definition() {
        for (precision, tolerance) in [(Precision::F32, 1e-6), (Precision::Bf16, 4e-3)] {
            let Some(device) = opened(CudaDevice::new(0, precision)) else { return };
            let (context, kernels) = (&device.gpu.context, &device.gpu.kernels);
            for g in geometries() {
                let lens = [g.input_len(), g.weight_len(), g.output_len()];
                let [x, w, y] = [0, 1, 2].map(|i| rounded(&random(i as u64 + 1, lens[i])));
                let buffer = |values: &[f32]| Buffer::new(context, precision, values);
                let (on_x, on_w, on_y) = (buffer(&x), buffer(&w), buffer(&y));
                let scratch = Buffer::bytes(context, weight_scratch(context, &g));
                let close = |what: &str, found: &Buffer<'_>, expected: &[f32]| {
                    let off = error(&found.read(), expected);
                    assert!(off < tolerance, "{what} {precision:?} {g:?}: {off:.2e}");
                };
                // Each result is added to existing values, which `Add` must keep.
                let (mut fy, mut fx, mut fw) = (y.clone(), x.clone(), w.clone());
                reference::forward(&g, &x, &w, &mut fy, Write::Add);
                reference::backward_data(&g, &y, &w, &mut fx, Write::Add);
                reference::backward_weight(&g, &x, &y, &mut fw, Write::Add);
                let (to_y, to_x, to_w) = (buffer(&y), buffer(&x), buffer(&w));
                // SAFETY: buffers of the geometry's sizes, alive until they are read.
                unsafe {
                    forward(kernels, &g, Write::Add, [on_x.at(), on_w.at(), to_y.at()]);
                    backward_data(kernels, &g, Write::Add, [on_y.at(), on_w.at(), to_x.at()]);
                    let tensors = [on_x.at(), on_y.at(), to_w.at()];
                    backward_weight(context, kernels, &g, Write::Add, tensors, scratch.at());
                }
                close("forward", &to_y, &fy);
                close("data", &to_x, &fx);
                close("weight", &to_w, &fw);
            }
        }
    }
}
