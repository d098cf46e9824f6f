//! A convolution as a cuDNN operation graph: one node `out = conv(a, b) + β·out`, or two or three
//! nodes `out = act(conv(a, b) + bias)`. cuDNN has precompiled engines for the latter if the bias
//! has the weights' precision and intermediate values are f32, but none for an f32 bias with bf16
//! weights.
//!
//! [`Write::Add`] is β = 1: every precompiled engine of cuDNN 9.14 supports it, with the same
//! heuristics and nearly the same workspace. Not used: a pointwise addition in the graph, which
//! leaves only engines compiled at run time.

use cudarc::cudnn::sys;
use sys::cudnnPointwiseMode_t as Mode;

use super::conv::{Conv, Direction};
use super::descriptor::{Attribute, Descriptor, Kind};
use crate::cuda::libraries::Cudnn;
use crate::cuda::precision::Precision;
use crate::device::buffer::Write;
use crate::error::CudaError;
use crate::graph::ops::activation::Activation;

/// Required alignment of pointers given to a plan, in bytes.
pub(super) const POINTER_ALIGNMENT: u64 = 16;

/// Identifiers of the tensors in memory, used in variant packs.
pub(super) const INPUT: i64 = 1;
pub(super) const WEIGHT: i64 = 2;
pub(super) const OUTPUT: i64 = 3;
pub(super) const BIAS: i64 = 4;
/// Identifiers of the virtual tensors.
const SUM: i64 = 5;
const BIASED: i64 = 6;

/// Device that plans are made for: that of a handle, or a described one (tests on machines without
/// a GPU).
pub(super) enum Device {
    Handle(sys::cudnnHandle_t),
    #[cfg(test)]
    Described(Descriptor),
}

/// The library and a device to make plans for.
pub(super) struct Target {
    pub(super) cudnn: &'static Cudnn,
    pub(super) device: Device,
}

impl Target {
    /// Creates an empty descriptor.
    pub(super) fn descriptor(&self, kind: Kind) -> Result<Descriptor, CudaError> {
        Descriptor::new(self.cudnn, kind)
    }

    /// Sets the device of a descriptor, with whichever of the two attributes applies. Some kinds
    /// have only one of them.
    pub(super) fn name_to(
        &self,
        descriptor: &Descriptor,
        handle: Option<Attribute>,
        _properties: Option<Attribute>,
    ) -> Result<(), CudaError> {
        match &self.device {
            Device::Handle(value) => {
                handle.map_or(Ok(()), |name| descriptor.set_handle(name, *value))
            }
            #[cfg(test)]
            Device::Described(properties) => {
                _properties.map_or(Ok(()), |name| descriptor.set_descriptors(name, &[properties]))
            }
        }
    }
}

/// An operation graph with all descriptors it refers to.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) graph: Descriptor,
    /// Whether the graph has the tensor [`BIAS`].
    pub(super) biased: bool,
    _parts: Vec<Descriptor>,
}

impl Graph {
    pub(super) fn new(target: &Target, conv: &Conv) -> Result<Self, CudaError> {
        let g = &conv.geometry;
        let [height, width] = g.output();
        let x = tensor(
            target,
            INPUT,
            [g.batch, g.in_channels, g.input[0], g.input[1]],
            conv.precision,
        )?;
        let w = tensor(
            target,
            WEIGHT,
            [g.out_channels, g.in_channels / g.groups, g.kernel[0], g.kernel[1]],
            conv.precision,
        )?;
        let result = [g.batch, g.out_channels, height, width];
        let y = tensor(target, OUTPUT, result, conv.precision)?;
        let rule = rule(target, conv)?;
        let (nodes, others) = match conv.epilogue {
            None => (vec![node(target, conv, &rule, &x, &w, &y)?], vec![]),
            Some(activation) => {
                let bias = tensor(target, BIAS, [1, g.out_channels, 1, 1], conv.precision)?;
                let sum = between(target, SUM, result)?;
                let convolution = node(target, conv, &rule, &x, &w, &sum)?;
                let add = pointwise(target, Mode::CUDNN_POINTWISE_ADD)?;
                match activation {
                    Activation::None => {
                        let biased = pointwise_node(target, &add, &sum, Some(&bias), &y)?;
                        (vec![convolution, biased], vec![bias, sum, add])
                    }
                    Activation::Relu => {
                        let between = between(target, BIASED, result)?;
                        let biased = pointwise_node(target, &add, &sum, Some(&bias), &between)?;
                        let relu = pointwise(target, Mode::CUDNN_POINTWISE_RELU_FWD)?;
                        let active = pointwise_node(target, &relu, &between, None, &y)?;
                        (vec![convolution, biased, active], vec![bias, sum, add, between, relu])
                    }
                    Activation::Relu6 => {
                        return Err(CudaError::call(conv.to_string(), "ReLU6 is not fused"));
                    }
                }
            }
        };
        let graph = target.descriptor(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
        target.name_to(&graph, Some(Attribute::CUDNN_ATTR_OPERATIONGRAPH_HANDLE), None)?;
        let operations: Vec<_> = nodes.iter().collect();
        graph.set_descriptors(Attribute::CUDNN_ATTR_OPERATIONGRAPH_OPS, &operations)?;
        graph.finalize("operation graph")?;
        let parts = [x, w, y, rule].into_iter().chain(nodes).chain(others).collect();
        Ok(Self { graph, biased: conv.epilogue.is_some(), _parts: parts })
    }
}

/// A pointwise function computed in f32.
fn pointwise(target: &Target, mode: Mode) -> Result<Descriptor, CudaError> {
    let function = target.descriptor(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)?;
    function.set_pointwise_mode(Attribute::CUDNN_ATTR_POINTWISE_MODE, mode)?;
    function.set_data_type(Attribute::CUDNN_ATTR_POINTWISE_MATH_PREC, data_type(Precision::F32))?;
    function.finalize("pointwise function")?;
    Ok(function)
}

/// A node `y = function(x, b)`.
fn pointwise_node(
    target: &Target,
    function: &Descriptor,
    x: &Descriptor,
    b: Option<&Descriptor>,
    y: &Descriptor,
) -> Result<Descriptor, CudaError> {
    use Attribute::*;
    let node = target.descriptor(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)?;
    node.set_descriptors(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &[function])?;
    node.set_descriptors(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &[x])?;
    if let Some(b) = b {
        node.set_descriptors(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, &[b])?;
    }
    node.set_descriptors(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &[y])?;
    node.finalize("pointwise node")?;
    Ok(node)
}

pub(super) fn data_type(precision: Precision) -> sys::cudnnDataType_t {
    match precision {
        Precision::Bf16 => sys::cudnnDataType_t::CUDNN_DATA_BFLOAT16,
        Precision::F32 => sys::cudnnDataType_t::CUDNN_DATA_FLOAT,
    }
}

/// Describes a tensor in memory. Dimensions are in cuDNN's order N, C, H, W (or K, C, R, S); memory
/// is channels-last.
fn tensor(
    target: &Target,
    name: i64,
    dims: [usize; 4],
    precision: Precision,
) -> Result<Descriptor, CudaError> {
    describe(target, name, dims, precision, false)
}

/// Describes a virtual tensor, which is passed between nodes and never in memory.
fn between(target: &Target, name: i64, dims: [usize; 4]) -> Result<Descriptor, CudaError> {
    describe(target, name, dims, Precision::F32, true)
}

fn describe(
    target: &Target,
    name: i64,
    dims: [usize; 4],
    precision: Precision,
    is_virtual: bool,
) -> Result<Descriptor, CudaError> {
    let dims = dims.map(|d| d as i64);
    let [_, c, h, w] = dims;
    let tensor = target.descriptor(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?;
    tensor.set_data_type(Attribute::CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(precision))?;
    tensor.set_integers(Attribute::CUDNN_ATTR_TENSOR_DIMENSIONS, &dims)?;
    tensor.set_integers(Attribute::CUDNN_ATTR_TENSOR_STRIDES, &[h * w * c, 1, w * c, c])?;
    tensor.set_integers(Attribute::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[name])?;
    tensor
        .set_integers(Attribute::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[POINTER_ALIGNMENT as i64])?;
    tensor.set_flag(Attribute::CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual)?;
    tensor.finalize(&format!("tensor {dims:?}"))?;
    Ok(tensor)
}

/// Describes stride and padding. Sums are f32 in both precisions.
fn rule(target: &Target, conv: &Conv) -> Result<Descriptor, CudaError> {
    use Attribute::*;
    let pair = |values: [usize; 2]| values.map(|v| v as i64);
    let (stride, padding) = (pair(conv.geometry.stride), pair(conv.geometry.padding));
    let rule = target.descriptor(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?;
    rule.set_data_type(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, sys::cudnnDataType_t::CUDNN_DATA_FLOAT)?;
    rule.set_convolution_mode(
        CUDNN_ATTR_CONVOLUTION_CONV_MODE,
        sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION,
    )?;
    rule.set_integers(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[2])?;
    rule.set_integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &padding)?;
    rule.set_integers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &padding)?;
    rule.set_integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &stride)?;
    rule.set_integers(CUDNN_ATTR_CONVOLUTION_DILATIONS, &[1, 1])?;
    rule.finalize("convolution")?;
    Ok(rule)
}

fn node(
    target: &Target,
    conv: &Conv,
    rule: &Descriptor,
    x: &Descriptor,
    w: &Descriptor,
    y: &Descriptor,
) -> Result<Descriptor, CudaError> {
    use Attribute::*;
    let (kind, [of_rule, of_x, of_w, of_y, alpha, beta]) = match conv.direction {
        Direction::Forward => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            [
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            ],
        ),
        Direction::BackwardData => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            [
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            ],
        ),
        Direction::BackwardWeight => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            [
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
            ],
        ),
    };
    let node = target.descriptor(kind)?;
    node.set_descriptors(of_rule, &[rule])?;
    node.set_descriptors(of_x, &[x])?;
    node.set_descriptors(of_w, &[w])?;
    node.set_descriptors(of_y, &[y])?;
    node.set_float(alpha, 1.0)?;
    node.set_float(beta, if conv.write == Write::Add { 1.0 } else { 0.0 })?;
    node.finalize("convolution node")?;
    Ok(node)
}
