//! The members of a plan on one device: graphs, programs, memory and bank, and the step that trains them together.
//!
//! ```text
//! compose ─► member 0: forward, backward ─► member 1 … ─► compose backward ─► SGD
//! ```
//!
//! The loss is the sum of the members' losses on the same images. Members run one after another over one arena: their
//! weights are different tensors even where they are made of the same numbers, so no gradient is added up before the
//! bank adds it up. A step may train some of them only; where others learn from the largest ([`LossTarget`]) it runs first.

mod members;
mod optimizer;
mod parameters;

pub use members::{Ensemble, EnsembleOptions, EnsembleSubset, NEAR_ZERO_WEIGHT, ZERO_SCALE};
pub(crate) use parameters::multiply_adds;
pub use parameters::{ParameterKind, by_size, member_parameters};
