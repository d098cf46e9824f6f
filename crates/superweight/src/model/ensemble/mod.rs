//! The members of a plan on one device, and the step that trains them together.
//!
//! ```text
//! compose ─► member 0: forward, backward ─► member 1 … ─► compose backward ─► SGD
//! ```
//!
//! The loss is the sum of the members' losses on the same images. Members run one after another
//! over one arena. Their composed weights are separate tensors even where they share parameters, so
//! only the bank adds up gradients of different members.
//!
//! A step may train a subset of the members. With distillation the teacher, the largest member,
//! runs before the others.

mod health;
mod members;
mod optimizer;
mod options;
mod parameters;
mod step;

pub use health::{NEAR_ZERO_WEIGHT, ZERO_SCALE};
pub use members::Ensemble;
pub use options::EnsembleOptions;
pub(crate) use parameters::multiply_adds;
pub use parameters::{ParameterKind, by_size, member_parameters};
pub use step::EnsembleSubset;
