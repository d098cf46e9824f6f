//! CPU device: f32 arithmetic, NHWC activations, one thread pool per device.
//!
//! Results are deterministic. Tasks depend only on shapes. A reduction writes one partial sum per
//! task and adds them in task order. Threads only decide which task runs where, so 1, 2 and 7
//! threads give the same bits.

mod access;
mod bank;
mod buffer;
#[doc(hidden)]
pub mod conv;
mod device;
mod images;
mod ops;
mod rows;
mod sgd;
mod share;
mod simd;
mod sums;
mod vector;

pub use device::{CpuDevice, MAX_THREADS};

#[doc(hidden)]
pub use device::{Kernel, Packed};
