//! Convolutions: selects cuDNN, a matrix product, or a direct kernel.

use super::direct;
use super::elementwise;
use crate::cuda::blas::{Arithmetic, Product, ProductShape};
use crate::cuda::context::Context;
use crate::cuda::cudnn::{Conv as Planned, ConvPlan, Direction};
use crate::cuda::precision::Precision;
use crate::cuda::view::View;
use crate::device::buffer::Write;
use crate::device::call::conv::{BackwardData, BackwardWeight, Forward};
use crate::error::CudaError;
use crate::geometry::ConvGeometry;

/// Implementation of a convolution.
#[derive(Debug)]
pub(crate) enum Conv {
    /// A cuDNN plan.
    Plan(ConvPlan),
    /// A cuDNN plan that also adds the bias and applies the activation.
    Fused(ConvPlan),
    /// A linear layer, as a matrix product.
    Product(Product, Direction),
    /// A direct kernel of this crate.
    Direct,
}

impl Conv {
    /// Chooses an implementation: a matrix product for linear layers, a cuDNN plan if there is one,
    /// otherwise a direct kernel. Memory bandwidth limits depthwise convolutions, and the direct
    /// kernel reads memory once.
    fn new(
        context: &Context,
        geometry: ConvGeometry,
        direction: Direction,
        write: Write,
    ) -> Result<(Self, usize), CudaError> {
        if is_linear(&geometry) {
            let (product, workspace) =
                Product::new(&context.blas, product(context, &geometry, direction, write))?;
            return Ok((Self::Product(product, direction), workspace));
        }
        if !is_depthwise(&geometry) {
            let conv = Planned {
                geometry,
                direction,
                write,
                precision: context.precision,
                epilogue: None,
            };
            match ConvPlan::new(&context.dnn, &context.counters, conv) {
                Ok((plan, workspace)) => return Ok((Self::Plan(plan), workspace)),
                Err(error) => eprintln!("warning: {error}; a slower kernel takes its place"),
            }
        }
        let scratch = match direction {
            Direction::BackwardWeight => direct::weight_scratch(context, &geometry),
            Direction::Forward | Direction::BackwardData => 0,
        };
        Ok((Self::Direct, scratch))
    }

    pub(in crate::cuda) fn forward(
        context: &Context,
        call: &Forward,
    ) -> Result<(Self, usize), CudaError> {
        let Forward { geometry, write, .. } = *call;
        // If cuDNN cannot fuse the epilogue, it runs as a separate kernel.
        if let (Some(epilogue), Write::Set, false) = (call.epilogue, write, is_depthwise(&geometry))
        {
            let (direction, precision) = (Direction::Forward, context.precision);
            let epilogue = Some(epilogue.activation);
            let conv = Planned { geometry, direction, write, precision, epilogue };
            if let Ok((plan, workspace)) = ConvPlan::new(&context.dnn, &context.counters, conv) {
                return Ok((Self::Fused(plan), workspace));
            }
        }
        Self::new(context, geometry, Direction::Forward, write)
    }

    pub(in crate::cuda) fn backward_data(
        context: &Context,
        call: &BackwardData,
    ) -> Result<(Self, usize), CudaError> {
        Self::new(context, call.geometry, Direction::BackwardData, call.write)
    }

    pub(in crate::cuda) fn backward_weight(
        context: &Context,
        call: &BackwardWeight,
    ) -> Result<(Self, usize), CudaError> {
        Self::new(context, call.geometry, Direction::BackwardWeight, call.write)
    }

    /// Runs the plan or product. Returns false if the convolution needs a direct kernel.
    fn planned(&self, v: &View<'_>, tensors: [u64; 3], bias: u64, scratch: u64) -> bool {
        let [a, b, out] = tensors;
        // SAFETY: see `View`; the scratch memory has the size that the plan or product requested.
        let run = unsafe {
            match self {
                Self::Direct => return false,
                Self::Plan(plan) | Self::Fused(plan) => {
                    plan.run(&v.context.dnn, &v.context.counters, tensors, bias, scratch)
                }
                Self::Product(product, Direction::BackwardWeight) => {
                    product.run(&v.context.blas, v.context.raw_stream(), [b, a, out], scratch)
                }
                Self::Product(product, _) => {
                    product.run(&v.context.blas, v.context.raw_stream(), [a, b, out], scratch)
                }
            }
        };
        v.context.note(run);
        true
    }
}

/// One channel per group, or images of one channel. cuDNN plans do not help there.
fn is_depthwise(g: &ConvGeometry) -> bool {
    g.in_channels == 1 || g.in_channels == g.groups
}

/// 1×1 images, so that the convolution is a linear layer.
fn is_linear(g: &ConvGeometry) -> bool {
    g.groups == 1 && g.input == [1; 2] && g.kernel == [1; 2] && g.padding == [0; 2]
}

/// Shape of the product: `y = x·wᵀ`, `dx = dy·w` or `dw = dyᵀ·x`.
fn product(
    context: &Context,
    g: &ConvGeometry,
    direction: Direction,
    write: Write,
) -> ProductShape {
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

/// Runs a forward convolution. `w` is the address of the weight: in the parameters, or frozen.
pub(in crate::cuda) fn forward(call: &Forward, conv: &Conv, v: &View<'_>, w: u64, scratch: u64) {
    let tensors = [v.at(call.x), w, v.at(call.y)];
    let bias = v.at_some(call.epilogue.map(|epilogue| epilogue.bias));
    if !conv.planned(v, tensors, bias, scratch) {
        // SAFETY: see `View`.
        unsafe { direct::forward(v.kernels, &call.geometry, call.write, tensors) }
    }
    if let (Some(epilogue), false) = (&call.epilogue, matches!(conv, Conv::Fused(_))) {
        elementwise::finish(epilogue, call.y, v);
    }
}

pub(in crate::cuda) fn backward_data(call: &BackwardData, conv: &Conv, v: &View<'_>, scratch: u64) {
    let tensors = [v.at(call.dy), v.at(call.w), v.at(call.dx)];
    if !conv.planned(v, tensors, 0, scratch) {
        // SAFETY: see `View`.
        unsafe { direct::backward_data(v.kernels, &call.geometry, call.write, tensors) }
    }
}

pub(in crate::cuda) fn backward_weight(
    call: &BackwardWeight,
    conv: &Conv,
    v: &View<'_>,
    scratch: u64,
) {
    let tensors = [v.at(call.x), v.at(call.dy), v.at(call.dw)];
    if !conv.planned(v, tensors, 0, scratch) {
        // SAFETY: see `View`; the scratch memory has the size from `direct::weight_scratch`.
        unsafe {
            direct::backward_weight(
                v.context,
                v.kernels,
                &call.geometry,
                call.write,
                tensors,
                scratch,
            )
        }
    }
}
