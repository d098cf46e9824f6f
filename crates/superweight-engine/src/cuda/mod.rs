//! CUDA: an NVIDIA GPU through the driver, cuDNN, cuBLASLt and kernels of our own, all opened at run time, so that one
//! binary runs with and without a GPU.
//!
//! | file | question |
//! |---|---|
//! | `libraries.rs`, `context.rs`, `error.rs` | which GPU, which libraries, and what went wrong? |
//! | `compile.rs`, `launch.rs`, `kernels/` | where do kernels come from, how are they started? |
//! | `buffer.rs`, `view.rs` | where does a number lie, and how wide is it there? |
//! | `cudnn/`, `blas.rs` | how are convolutions and matrix products planned? |
//! | `conv.rs`, `direct.rs`, `norm.rs`, `norm_once.rs`, `pool.rs`, `loss.rs`, `view.rs` | one call each |
//! | `together.rs` | which calls are one launch? |
//! | `views.rs`, `mix.rs`, `factors.rs`, `sgd.rs`, `images.rs` | what surrounds a program in a step |
//! | `record.rs`, `counters.rs`, `nodes.rs` | how is a step done again at once? |
//!
//! Determinism is the only mode here too: no float atomics, reductions in a fixed order, deterministic plans.
//!
//! Calls return before they are done. What fails later is remembered and reported by [`Device::finish`] or the next call
//! that can.

mod bank;
mod blas;
mod buffer;
mod capture;
mod compile;
mod context;
mod cudnn;
mod device;
mod fuse;
mod gpu;
mod images;
mod launch;
mod libraries;
mod lock;
mod named;
#[cfg(test)]
mod on_device;
mod ops;
mod precision;
mod properties;
mod record;
mod sgd;
mod tuning;
mod view;

pub use bank::mix::Mixer;
pub use bank::views::Viewer;
pub use buffer::CudaBuffer;
pub use compile::compile_all;
#[cfg(fuzzing)]
pub use cudnn::parse_records;
pub use device::CudaDevice;
pub use images::CudaImages;
pub use ops::Kernel;
pub use precision::Precision;
pub use record::Recording;
pub use sgd::Updater;
pub use tuning::{ConvRecord, Tuning};
pub use view::Packed;

pub use crate::error::CudaError;
