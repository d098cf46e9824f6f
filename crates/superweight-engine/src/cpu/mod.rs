//! The CPU's kernels: everything in the engine that is `unsafe`, and nothing that is not fast.

pub mod conv;
mod share;
mod simd;
