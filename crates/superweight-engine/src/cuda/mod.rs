//! CUDA: an NVIDIA GPU through the driver, cuDNN, cuBLASLt and kernels of our own, all opened at run time, so that one
//! binary runs with and without a GPU.

mod compile;
mod context;
mod error;
mod libraries;

pub use compile::compile_all;
pub use context::Precision;
pub use error::CudaError;
