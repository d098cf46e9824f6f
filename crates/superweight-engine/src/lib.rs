#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

pub mod cpu;
pub mod cuda;
mod device;
mod error;
#[doc(hidden)]
pub mod geometry;
mod graph;
mod images;
mod memory;
mod program;
mod shape;
mod transpose;

pub use cpu::CpuDevice;
pub use cuda::{CudaDevice, Precision};
pub use device::bank_view::{BankView, BankViewSet, RankOne};
pub use device::buffer::{Access, BufferId, Control, Element, InputGradient, Region, Space, Write};
pub use device::call::Call;
pub use device::mix::{Block, MixFactors, MixGradients, MixOutput, MixSet, MixUse};
pub use device::sgd::{ParameterGroup, SgdGroups, SgdOptions};
pub use device::{Device, Observer, Schedule, Step, Storages};
pub use error::{CudaError, Error};
pub use graph::ops::activation::Activation;
pub use graph::ops::batch_norm::{BatchNorm, Scope};
pub use graph::ops::conv::Conv2d;
pub use graph::ops::loss::{CrossEntropy, Target};
pub use graph::ops::pool::{Pool2d, PoolKind};
pub use graph::{Graph, GraphBuilder, Node, NodeId, Slot, SlotId, SlotKind};
pub use images::{ImageSample, ImageSet, MappedFile, Pixels};
pub use memory::{Accumulator, BankViews, Frozen, Memory, Metrics, Mix, Sgd, SgdSubset};
pub use program::{Layout, LayoutBuilder, MemoryPlan, NormMode, Program, Settings};
pub use shape::Shape;
pub use transpose::{nchw_to_nhwc, nhwc_to_nchw, ohwi_to_oihw, oihw_to_ohwi};

/// Operand structs of the kernel calls in [`Call`], for implementers of [`Device`].
pub mod calls {
    pub use crate::device::call::activation::{
        Backward as ActivationBackward, Forward as ActivationForward,
    };
    pub use crate::device::call::add::{Copy, Fill, Sum};
    pub use crate::device::call::batch_norm::{
        Affine, Apply as NormApply, Backward as NormBackward, Moments, NormShape, Residual,
        Running, RunningRule, Statistics as NormStatistics,
    };
    pub use crate::device::call::channel_scale::{
        Backward as ScaleBackward, Forward as ScaleForward, ScaleShape,
    };
    pub use crate::device::call::concat::{
        Backward as ConcatBackward, Columns, Forward as ConcatForward,
    };
    pub use crate::device::call::conv::{
        BackwardData as ConvBackwardData, BackwardWeight as ConvBackwardWeight, Epilogue,
        Forward as ConvForward,
    };
    pub use crate::device::call::external::Call as ExternalGradient;
    pub use crate::device::call::linear::{BiasBackward, BiasForward};
    pub use crate::device::call::loss::{Call as CrossEntropyCall, TargetBuffer};
    pub use crate::device::call::pool::{
        Backward as PoolBackward, Forward as PoolForward, GlobalBackward, GlobalForward, PoolShape,
    };
    pub use crate::device::call::softmax::{
        Backward as SoftmaxBackward, Forward as SoftmaxForward,
    };
}
