//! How numbers are computed: a static graph with its backward pass, compiled to kernel calls over planned memory.
//!
//! ```text
//! GraphBuilder ─► Graph ─┐                              ┌─► Memory::run ─► losses, outputs, dL/dW
//!                        ├─► Layout ─► Program::compile ┤
//!               Settings ┘   (names → places)           └─► Program::plan: bytes needed, before anything runs
//! ```
//!
//! A network is a short list of operations known before training starts. Weights are *inputs* of the graph and dL/dW is
//! an output, so whoever composes weights from shared parameters gets per-layer gradients for free. Determinism is the
//! only mode: results do not depend on the number of threads, nor on the run.
#![deny(missing_docs)]

mod accumulate;
pub mod cpu;
pub mod cuda;
mod device;
mod error;
pub mod geometry;
mod graph;
mod images;
mod layout;
mod mapped;
mod memory;
mod mix;
mod ops;
mod optimizer;
mod program;
mod views;
mod weights;

pub use accumulate::Accumulator;
pub use cpu::CpuDevice;
pub use cuda::{CudaDevice, CudaError, Precision};
pub use device::{Device, Frozen, Memory, Metrics, Observer, Storages};
pub use error::Error;
pub use graph::{Graph, GraphBuilder, Node, NodeId, Shape, Slot, SlotId, SlotKind};
pub use images::{ImageDraw, ImageSet, Pixels};
pub use layout::{Control, Layout, LayoutBuilder};
pub use mapped::Mapped;
pub use memory::MemoryPlan;
pub use mix::{Block, Mix, MixFactors, MixGradients, MixReaders, MixSet, MixUse};
pub use ops::activation::Activation;
pub use ops::batch_norm::{BatchNorm, Scope};
pub use ops::conv::Conv2d;
pub use ops::loss::{CrossEntropy, Target};
pub use ops::pool::{Pool2d, PoolKind};
pub use ops::{Call, Write};
pub use optimizer::{ParameterGroup, Sgd, SgdGroups, SgdOptions, SgdPart};
pub use program::{
    Access, BufferId, Element, InputGradient, NormMode, Program, Region, Settings, Space, Step,
};
pub use views::{RankOne, View, ViewSet, Views};
pub use weights::{nchw_to_nhwc, nhwc_to_nchw, ohwi_to_oihw, oihw_to_ohwi};

/// What kernel calls consist of, for those who write a device.
pub mod calls {
    pub use crate::ops::activation::{
        Backward as ActivationBackward, Forward as ActivationForward,
    };
    pub use crate::ops::add::{Copy, Fill, Sum};
    pub use crate::ops::batch_norm::{
        Affine, Apply as NormApply, Backward as NormBackward, Moments, NormShape, Residual,
        Running, RunningRule, Statistics as NormStatistics,
    };
    pub use crate::ops::channel_scale::{
        Backward as ScaleBackward, Forward as ScaleForward, ScaleShape,
    };
    pub use crate::ops::concat::{Backward as ConcatBackward, Columns, Forward as ConcatForward};
    pub use crate::ops::conv::{
        BackwardData as ConvBackwardData, BackwardWeight as ConvBackwardWeight, Epilogue,
        Forward as ConvForward,
    };
    pub use crate::ops::external::Call as ExternalGradient;
    pub use crate::ops::linear::{BiasBackward, BiasForward};
    pub use crate::ops::loss::{Call as CrossEntropyCall, TargetBuffer};
    pub use crate::ops::pool::{
        Backward as PoolBackward, Forward as PoolForward, GlobalBackward, GlobalForward, PoolShape,
    };
    pub use crate::ops::softmax::{Backward as SoftmaxBackward, Forward as SoftmaxForward};
}
