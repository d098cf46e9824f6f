//! Convolutions: who computes which.

use super::blas::{Arithmetic, Product, ProductShape};
use super::context::{Context, Precision};
use super::cudnn::{ConvPlan, Direction};
use super::error::CudaError;
use super::launch::{Grid, launch};
use super::view::{View, adds};
use crate::geometry::ConvGeometry;
use crate::ops::Write;
use crate::ops::conv::{BackwardData, BackwardWeight, Forward};

/// Blocks per multiprocessor that the direct gradient of a weight aims at.
const BUSY: usize = 8;
/// Outputs that a split of it has at least.
const SPLIT: usize = 256;

/// How a convolution is computed.
#[derive(Debug)]
pub(crate) enum Conv {
    /// By a plan of cuDNN's.
    Plan(ConvPlan),
    /// A linear layer, as a matrix product.
    Product(Product, Direction),
    /// From the definition, by a kernel of ours.
    Direct,
}

impl Conv {
    /// A plan of cuDNN's where it has one; depthwise convolutions are bound by memory, and our kernel reads it once.
    fn new(
        context: &Context,
        geometry: ConvGeometry,
        direction: Direction,
        write: Write,
    ) -> Result<(Self, usize), CudaError> {
        if is_linear(&geometry) {
            let (product, workspace) = Product::new(context, product(context, &geometry, direction, write))?;
            return Ok((Self::Product(product, direction), workspace));
        }
        if geometry.in_channels > 1 && geometry.in_channels != geometry.groups {
            match ConvPlan::new(context, geometry, direction, write, context.precision) {
                Ok((plan, workspace)) => return Ok((Self::Plan(plan), workspace)),
                Err(error) => eprintln!("warning: {error}; a slower kernel takes its place"),
            }
        }
        let scratch = match direction {
            Direction::BackwardWeight => direct_weight_scratch(context, &geometry),
            Direction::Forward | Direction::BackwardData => 0,
        };
        Ok((Self::Direct, scratch))
    }

    pub(super) fn forward(context: &Context, call: &Forward) -> Result<(Self, usize), CudaError> {
        Self::new(context, call.geometry, Direction::Forward, call.write)
    }

    pub(super) fn backward_data(context: &Context, call: &BackwardData) -> Result<(Self, usize), CudaError> {
        Self::new(context, call.geometry, Direction::BackwardData, call.write)
    }

    pub(super) fn backward_weight(
        context: &Context,
        call: &BackwardWeight,
    ) -> Result<(Self, usize), CudaError> {
        Self::new(context, call.geometry, Direction::BackwardWeight, call.write)
    }

    /// Runs the plan or product, if it is one; else says that the definition is to be used.
    fn planned(&self, v: &View<'_>, [a, b, out]: [u64; 3], scratch: u64) -> bool {
        // SAFETY: see `View`; the scratch has the size that plan or product asked for.
        let run = unsafe {
            match self {
                Self::Direct => return false,
                Self::Plan(plan) => plan.run(v.context, a, b, out, scratch),
                Self::Product(product, Direction::BackwardWeight) => {
                    product.run(v.context, b, a, out, scratch)
                }
                Self::Product(product, _) => product.run(v.context, a, b, out, scratch),
            }
        };
        v.context.note(run);
        true
    }
}

/// Pixels that are whole images.
fn is_linear(g: &ConvGeometry) -> bool {
    g.groups == 1 && g.input == [1; 2] && g.kernel == [1; 2] && g.padding == [0; 2]
}

/// `y = x·wᵀ`, `dx = dy·w`, `dw = dyᵀ·x`.
fn product(context: &Context, g: &ConvGeometry, direction: Direction, write: Write) -> ProductShape {
    let (batch, input, output) = (g.batch, g.in_channels, g.out_channels);
    let ([m, n, k], transposed) = match direction {
        Direction::Forward => ([batch, output, input], [false, true]),
        Direction::BackwardData => ([batch, input, output], [false, false]),
        Direction::BackwardWeight => ([output, input, batch], [true, false]),
    };
    let arithmetic = match context.precision {
        Precision::Bf16 => Arithmetic::Bf16,
        Precision::F32 => Arithmetic::F32,
    };
    ProductShape { m, n, k, transposed, arithmetic, output: context.precision, write }
}

/// Sizes as the kernels take them.
#[repr(C)]
#[derive(Clone, Copy)]
struct Sizes([u32; 14]);

impl Sizes {
    fn of(g: &ConvGeometry) -> Self {
        let [oh, ow] = g.output();
        let ([h, w], [kh, kw], [sh, sw], [ph, pw]) = (g.input, g.kernel, g.stride, g.padding);
        let (c, k) = (g.in_channels, g.out_channels);
        Self([g.batch, h, w, c, k, oh, ow, kh, kw, sh, sw, ph, pw, g.groups].map(|size| size as u32))
    }
}

/// `w` is where the weight lies: with the parameters, or frozen.
pub(super) fn forward(call: &Forward, conv: &Conv, v: &View<'_>, w: u64, scratch: u64) {
    let (x, y, add) = (v.at(call.x), v.at(call.y), adds(call.write));
    if conv.planned(v, [x, w, y], scratch) {
        return;
    }
    let (grid, sizes) = (v.kernels.flat(call.geometry.output_len()), Sizes::of(&call.geometry));
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, "conv_forward", grid, x, w, y, sizes, add) }
}

pub(super) fn backward_data(call: &BackwardData, conv: &Conv, v: &View<'_>, scratch: u64) {
    let (dy, w, dx, add) = (v.at(call.dy), v.at(call.w), v.at(call.dx), adds(call.write));
    if conv.planned(v, [dy, w, dx], scratch) {
        return;
    }
    let (grid, sizes) = (v.kernels.flat(call.geometry.input_len()), Sizes::of(&call.geometry));
    // SAFETY: see `View`.
    unsafe { launch!(v.kernels, "conv_backward_data", grid, dy, w, dx, sizes, add) }
}

pub(super) fn backward_weight(call: &BackwardWeight, conv: &Conv, v: &View<'_>, scratch: u64) {
    let (x, dy, dw) = (v.at(call.x), v.at(call.dy), v.at(call.dw));
    if !conv.planned(v, [x, dy, dw], scratch) {
        direct_weight(&call.geometry, call.write, [x, dy, dw], v, scratch);
    }
}

fn direct_weight_grid(context: &Context, g: &ConvGeometry) -> Grid {
    let inner = g.in_channels / g.groups;
    let tiles = if inner == 1 { g.out_channels.div_ceil(32) } else { g.out_channels * inner.div_ceil(32) };
    let positions = g.kernel[0] * g.kernel[1];
    let outputs = g.output_len() / g.out_channels;
    let wanted = (context.properties.multiprocessors * BUSY).div_ceil(tiles * positions);
    let splits = wanted.clamp(1, outputs.div_ceil(SPLIT));
    Grid::new([tiles as u32, positions as u32, splits as u32], [32, 8, 1])
}

fn direct_weight_scratch(context: &Context, g: &ConvGeometry) -> usize {
    direct_weight_grid(context, g).blocks[2] as usize * g.weight_len() * 4
}

fn direct_weight(g: &ConvGeometry, write: Write, [x, dy, dw]: [u64; 3], v: &View<'_>, scratch: u64) {
    let grid = direct_weight_grid(v.context, g);
    let (sizes, n, splits) = (Sizes::of(g), g.weight_len(), grid.blocks[2]);
    let (flat, add) = (v.kernels.flat(n), adds(write));
    // SAFETY: see `View`; the scratch has the size that `direct_weight_scratch` gave.
    unsafe {
        launch!(v.kernels, "conv_backward_weight", grid, x, dy, scratch, sizes);
        launch!(v.kernels, "add_splits", flat, scratch, splits, dw, n as u64, add);
    }
}
