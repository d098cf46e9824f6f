//! Kernel calls.

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
        /// One kernel call: the unit a device prepares and runs.
        ///
        /// A call names its buffers by id; where they lie is the program's table. The operands it writes never
        /// overlap another operand ([`crate::Program::compile`] checks this), in-place variants name the buffer once.
        #[derive(Clone, Debug)]
        pub enum Call {
            $(#[allow(missing_docs)] $variant($path),)*
        }

        impl Call {
            /// The buffers it touches and how.
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
