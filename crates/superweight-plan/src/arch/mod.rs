//! Network architectures as data: operations over named tensors, with exact parameter counts.
//!
//! A name such as `wrn-28-10` ([`ArchName`]) with an input shape and a number of classes builds an
//! [`Architecture`]: a list of [`Node`]s in the order in which they run, each with its operation,
//! inputs and output shape. The engine executes that list; the planner reads only the tensors.
//! Tensor names are those of the PyTorch modules that most people use for the same networks, so
//! that exported weights load elsewhere.

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
