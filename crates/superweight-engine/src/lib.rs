//! How numbers are computed.
#![deny(missing_docs)]

pub mod cpu;
pub mod geometry;
