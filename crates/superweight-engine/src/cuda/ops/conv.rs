//! Convolutions: who computes which.

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

/// How a convolution is computed.
#[derive(Debug)]
pub(crate) enum Conv {
    /// By a plan of cuDNN's.
    Plan(ConvPlan),
    /// By a plan of cuDNN's that adds the bias and applies the activation too.
    Fused(ConvPlan),
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
        // Nothing is lost where cuDNN cannot fuse: the epilogue is a kernel of ours then.
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

    /// Runs the plan or product, if it is one; else says that the definition is to be used.
    fn planned(&self, v: &View<'_>, tensors: [u64; 3], bias: u64, scratch: u64) -> bool {
        let [a, b, out] = tensors;
        // SAFETY: see `View`; the scratch has the size that plan or product asked for.
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

/// One channel per group, where a plan of cuDNN's is no help; so are images of one channel.
fn is_depthwise(g: &ConvGeometry) -> bool {
    g.in_channels == 1 || g.in_channels == g.groups
}

/// Pixels that are whole images.
fn is_linear(g: &ConvGeometry) -> bool {
    g.groups == 1 && g.input == [1; 2] && g.kernel == [1; 2] && g.padding == [0; 2]
}

/// `y = x·wᵀ`, `dx = dy·w`, `dw = dyᵀ·x`.
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

/// `w` is where the weight lies: with the parameters, or frozen.
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
        // SAFETY: see `View`; the scratch has the size that `direct::weight_scratch` gave.
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
