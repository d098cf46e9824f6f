//! The CPU: f32 throughout, NHWC, one thread pool per device.
//!
//! Determinism: work is cut into tasks by shape alone; a reduction writes one partial sum per task and adds them in the
//! order of the tasks. Threads only decide who runs which task, so 1, 2 and 7 threads give the same bits.

mod access;
mod bank;
mod buffer;
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

pub use device::{CpuDevice, Kernel, MAX_THREADS, Packed};
