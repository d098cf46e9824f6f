//! Architectures as plain data: a list of operations over named tensors, with exact counts.
//!
//! A name such as `wrn-28-10` is a recipe ([`ArchName`]); together with an input shape and a number of classes it
//! becomes an [`Architecture`]: nodes in the order they run, each with its operation, inputs and output shape. An
//! engine is driven from that list; the planner only looks at the tensors. Tensor names are those of the PyTorch
//! module most people load such a network into, so that exported files open elsewhere.

mod bottleneck;
mod build;
mod builder;
mod cnn;
mod image;
mod mobilenet;
mod msdnet;
mod name;
mod parse;
mod types;
mod widths;
mod wrn;

pub use image::ImageShape;
pub use name::{ArchError, ArchName, FAMILIES};
pub use types::{Activation, Architecture, Counts, Node, NodeId, Op, Tensor, TensorId, TensorKind};
pub use widths::Width;
