//! How numbers are computed.
#![deny(missing_docs)]

pub mod geometry;
