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
//!
//! Without the cargo feature `cuda` only the types of this module remain, and `CudaDevice::new`
//! fails.

#[cfg(not(feature = "cuda"))]
mod absent;
#[cfg(feature = "cuda")]
mod bank;
#[cfg(feature = "cuda")]
mod blas;
#[cfg(feature = "cuda")]
mod buffer;
#[cfg(feature = "cuda")]
mod capture;
#[cfg(feature = "cuda")]
mod compile;
#[cfg(feature = "cuda")]
mod context;
#[cfg(feature = "cuda")]
mod cudnn;
#[cfg(feature = "cuda")]
mod device;
#[cfg(feature = "cuda")]
mod fuse;
#[cfg(feature = "cuda")]
mod gpu;
#[cfg(feature = "cuda")]
mod images;
#[cfg(feature = "cuda")]
mod launch;
#[cfg(feature = "cuda")]
mod libraries;
#[cfg(feature = "cuda")]
mod lock;
#[cfg(feature = "cuda")]
mod named;
#[cfg(all(test, feature = "cuda"))]
mod on_device;
#[cfg(feature = "cuda")]
mod ops;
mod precision;
#[cfg(feature = "cuda")]
mod properties;
#[cfg(feature = "cuda")]
mod record;
#[cfg(feature = "cuda")]
mod sgd;
mod tuning;
#[cfg(feature = "cuda")]
mod view;

#[cfg(not(feature = "cuda"))]
pub use absent::{CudaDevice, compile_all};
#[cfg(all(fuzzing, feature = "cuda"))]
pub use cudnn::parse_records;
pub use precision::Precision;
pub use tuning::{ConvRecord, Tuning};
#[cfg(feature = "cuda")]
pub use {compile::compile_all, device::CudaDevice};

#[cfg(feature = "cuda")]
#[doc(hidden)]
pub use {
    bank::mix::Mixer, bank::views::Viewer, buffer::CudaBuffer, images::CudaImages, ops::Kernel,
    record::Recording, sgd::Updater, view::Packed,
};

pub use crate::error::CudaError;
