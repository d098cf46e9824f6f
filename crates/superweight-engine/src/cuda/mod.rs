//! CUDA device: an NVIDIA GPU through the driver, cuDNN, cuBLASLt and kernels of this crate. All
//! are opened at run time, so one binary runs with and without a GPU.
//!
//! | file | purpose |
//! |---|---|
//! | `device`, `gpu`, `context`, `properties`, `libraries` | the device, its GPU and libraries |
//! | `compile`, `launch`, `kernels/` | compilation and launch of kernels |
//! | `buffer`, `view`, `precision` | addresses and widths of values |
//! | `cudnn/`, `blas/`, `tuning` | plans of convolutions and matrix products |
//! | `ops/` | kernels of the calls of a program |
//! | `fuse` | steps that are launched together |
//! | `bank/`, `sgd`, `images` | work between programs |
//! | `capture/`, `record` | recording and replay of a step |
//!
//! Results are deterministic: no float atomics, reductions in a fixed order, deterministic plans.
//!
//! Calls return before their work is done. A later failure is stored and returned by
//! [`Device::finish`](crate::Device::finish) or the next call that can fail.

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
