//! Operations of a graph: options, shape rules, and what the backward pass needs. Each operation
//! has one file here.
//!
//! An operation has three more files of the same name: `device/call/` holds the operands of its
//! kernel calls, `program/emit/` the order of these calls in the forward and backward pass, and
//! `cpu/ops/` and `cuda/ops/` hold the kernels.
//!
//! To add an operation, write these files, add a variant to [`Op`] and one to [`crate::Call`] per
//! kernel, and add a finite-difference case to `tests/`.

pub(crate) mod activation;
pub(crate) mod add;
pub(crate) mod batch_norm;
pub(crate) mod channel_scale;
pub(crate) mod concat;
pub(crate) mod conv;
pub(crate) mod external;
pub(crate) mod input;
pub(crate) mod linear;
pub(crate) mod loss;
pub(crate) mod operation;
pub(crate) mod pool;
pub(crate) mod softmax;

use operation::Operation;

/// An operation with its options.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Input(input::Input),
    Conv(conv::Op),
    Linear(linear::Op),
    BatchNorm(batch_norm::Op),
    ChannelScale(channel_scale::Op),
    Activation(activation::Op),
    Add(add::Op),
    Concat(concat::Op),
    Pool(pool::Op),
    GlobalAveragePool(pool::GlobalOp),
    Softmax(softmax::Op),
    CrossEntropy(loss::Op),
    ExternalGradient(external::Op),
}

impl Op {
    pub(crate) fn operation(&self) -> &dyn Operation {
        match self {
            Op::Input(op) => op,
            Op::Conv(op) => op,
            Op::Linear(op) => op,
            Op::BatchNorm(op) => op,
            Op::ChannelScale(op) => op,
            Op::Activation(op) => op,
            Op::Add(op) => op,
            Op::Concat(op) => op,
            Op::Pool(op) => op,
            Op::GlobalAveragePool(op) => op,
            Op::Softmax(op) => op,
            Op::CrossEntropy(op) => op,
            Op::ExternalGradient(op) => op,
        }
    }
}
