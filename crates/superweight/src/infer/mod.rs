//! Uses of a trained run: logits, evaluation by batch statistics, interpolation, anytime prediction, smaller networks, export.

pub mod anytime;
pub(crate) mod by_batch;
pub mod export;
mod interpolate;
pub mod slim;
mod trained;

pub use interpolate::Line;
pub use trained::*;
