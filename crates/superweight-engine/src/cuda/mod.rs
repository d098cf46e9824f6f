//! CUDA: an NVIDIA GPU through the driver, cuDNN, cuBLASLt and kernels of our own, all opened at run time, so that one
//! binary runs with and without a GPU.

mod blas;
mod context;
mod cudnn;
mod error;
mod libraries;
#[cfg(test)]
mod on_device;

pub use context::Precision;
pub use cudnn::{ConvRecord, Tuning};
pub use error::CudaError;
