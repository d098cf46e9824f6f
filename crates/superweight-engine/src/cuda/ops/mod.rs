//! Kernels of the calls of a program, one file per operation.

pub(super) mod conv;
mod direct;
mod elementwise;
pub(super) mod loss;
pub(super) mod norm;
pub(super) mod norm_once;
mod pool;
mod running;

use super::view::View;
use crate::device::Step;
use crate::device::call::Call;
use conv::Conv;

/// Result of preparing a call: the implementation of a convolution, or nothing for other calls.
#[derive(Debug)]
pub struct Kernel(pub(super) Option<Conv>);

/// Submits one step to the stream.
pub(in crate::cuda) fn execute(index: usize, step: &Step<Kernel>, v: &View<'_>) {
    let scratch = v.at_some(step.scratch);
    match (&step.call, &step.kernel.0) {
        (Call::ConvForward(c), Some(conv)) => {
            conv::forward(c, conv, v, v.frozen(index).unwrap_or(v.at(c.w)), scratch)
        }
        (Call::ConvBackwardData(c), Some(conv)) => conv::backward_data(c, conv, v, scratch),
        (Call::ConvBackwardWeight(c), Some(conv)) => conv::backward_weight(c, conv, v, scratch),
        (Call::BiasForward(c), _) => elementwise::bias_forward(c, v),
        (Call::BiasBackward(c), _) => elementwise::bias_backward(c, v),
        (Call::NormStatistics(c), _) => norm::statistics(c, v, scratch),
        (Call::NormApply(c), _) => norm::apply(c, v),
        (Call::NormBackward(c), _) => norm::backward(c, v, scratch),
        (Call::ScaleForward(c), _) => norm::scale_forward(c, v),
        (Call::ScaleBackward(c), _) => norm::scale_backward(c, v, scratch),
        (Call::ActivationForward(c), _) => elementwise::activation_forward(c, v),
        (Call::ActivationBackward(c), _) => elementwise::activation_backward(c, v),
        (Call::Sum(c), _) => elementwise::sum(c, v),
        (Call::Copy(c), _) => elementwise::copy(c, v),
        (Call::Fill(c), _) => elementwise::zero(c, v),
        (Call::ConcatForward(c), _) => elementwise::concat_forward(c, v),
        (Call::ConcatBackward(c), _) => elementwise::concat_backward(c, v),
        (Call::PoolForward(c), _) => pool::forward(c, v),
        (Call::PoolBackward(c), _) => pool::backward(c, v),
        (Call::GlobalPoolForward(c), _) => pool::global_forward(c, v),
        (Call::GlobalPoolBackward(c), _) => pool::global_backward(c, v),
        (Call::SoftmaxForward(c), _) => loss::softmax_forward(c, v),
        (Call::SoftmaxBackward(c), _) => loss::softmax_backward(c, v),
        (Call::CrossEntropy(c), _) => loss::run(c, v, scratch),
        (Call::ExternalGradient(c), _) => elementwise::external(c, v),
        (Call::ConvForward(_) | Call::ConvBackwardData(_) | Call::ConvBackwardWeight(_), None) => {
            unreachable!("a convolution call has a convolution kernel")
        }
    }
}
