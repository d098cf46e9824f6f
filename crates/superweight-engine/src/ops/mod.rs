//! The operations. A file here holds one operation: its options, its shape rule, and which kernel calls its forward
//! and backward pass consist of. A device has one file per operation with the kernels for those calls.
//!
//! To add an operation: its file here, one variant in [`Op`] and in [`Call`] for each kernel, one kernel file per
//! device, and a finite-difference case in `tests/`.

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
pub(crate) mod pool;
pub(crate) mod softmax;

use crate::error::Error;
use crate::graph::{Graph, Node, NodeId, SlotId};
use crate::program::{Access, BufferId, Emitter};

/// What an operation's backward pass reads of the forward pass, besides its parameters and its own small notes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keeps {
    pub inputs: bool,
    pub output: bool,
}

/// The device-free half of an operation.
pub(crate) trait Operation {
    /// The operation in one word, for labels.
    fn kind(&self) -> &'static str;

    /// Parameters it has a gradient for.
    fn parameters(&self) -> Vec<SlotId> {
        vec![]
    }

    /// What the batch size must satisfy.
    fn check_batch(
        &self,
        _graph: &Graph,
        _node: &Node,
        _context: BatchContext,
    ) -> Result<(), Error> {
        Ok(())
    }

    /// What backward reads of the activations.
    fn keeps(&self) -> Keeps {
        Keeps::default()
    }

    /// Whether gradients start here. A loss computes no activation.
    fn is_loss(&self) -> bool {
        false
    }

    /// Whether the output may be written by accumulating into a residual (see `add`).
    fn can_accumulate(&self) -> bool {
        false
    }

    /// Multiply-adds per image.
    fn multiply_adds(&self, _graph: &Graph, _node: &Node) -> u64 {
        0
    }

    /// Emits the calls of the forward pass.
    fn forward(&self, e: &mut Emitter<'_>, id: NodeId);

    /// Emits the calls of the backward pass, given the gradient of the output.
    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, dy: BufferId);
}

/// What a shape rule for batches looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchContext {
    pub batch: usize,
    /// Whether batch norm takes its statistics from the batch.
    pub batch_statistics: bool,
    /// Whether there is a backward pass.
    pub backward: bool,
}

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

/// Whether a kernel replaces what lies at its destination or adds to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// Replace.
    Set,
    /// Add.
    Add,
}

impl Write {
    /// How the destination is touched.
    pub(crate) fn access(self) -> Access {
        match self {
            Write::Set => Access::Write,
            Write::Add => Access::Update,
        }
    }
}
