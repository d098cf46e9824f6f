//! Kernel calls: the interface between compiled programs and devices. Each operation has one file
//! of operand structs.

pub(crate) mod activation;
pub(crate) mod add;
pub(crate) mod batch_norm;
pub(crate) mod channel_scale;
pub(crate) mod concat;
pub(crate) mod conv;
pub(crate) mod external;
pub(crate) mod linear;
pub(crate) mod loss;
pub(crate) mod pool;
pub(crate) mod softmax;

use super::buffer::{Access, BufferId};

macro_rules! calls {
    ($($variant:ident($path:path),)*) => {
        /// One kernel call, the unit that a device prepares and runs.
        ///
        /// A call refers to its buffers by id; the program's table gives their locations. A written
        /// operand never overlaps another operand, which [`crate::Program::compile`] checks.
        /// In-place variants name the buffer once.
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum Call {
            $(#[allow(missing_docs)] $variant($path),)*
        }

        impl Call {
            /// All buffers of the call, and how it accesses them.
            pub fn operands(&self) -> Vec<(BufferId, Access)> {
                match self { $(Call::$variant(call) => call.operands(),)* }
            }

            /// Name of the kernel.
            pub fn name(&self) -> &'static str {
                match self { $(Call::$variant(_) => stringify!($variant),)* }
            }
        }

        $(impl From<$path> for Call {
            fn from(call: $path) -> Self { Call::$variant(call) }
        })*
    };
}

calls! {
    ConvForward(conv::Forward),
    ConvBackwardData(conv::BackwardData),
    ConvBackwardWeight(conv::BackwardWeight),
    BiasForward(linear::BiasForward),
    BiasBackward(linear::BiasBackward),
    NormStatistics(batch_norm::Statistics),
    NormApply(batch_norm::Apply),
    NormBackward(batch_norm::Backward),
    ScaleForward(channel_scale::Forward),
    ScaleBackward(channel_scale::Backward),
    ActivationForward(activation::Forward),
    ActivationBackward(activation::Backward),
    Sum(add::Sum),
    Copy(add::Copy),
    Fill(add::Fill),
    ConcatForward(concat::Forward),
    ConcatBackward(concat::Backward),
    PoolForward(pool::Forward),
    PoolBackward(pool::Backward),
    GlobalPoolForward(pool::GlobalForward),
    GlobalPoolBackward(pool::GlobalBackward),
    SoftmaxForward(softmax::Forward),
    SoftmaxBackward(softmax::Backward),
    CrossEntropy(loss::Call),
    ExternalGradient(external::Call),
}
