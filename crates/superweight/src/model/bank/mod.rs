//! Layout, initialization and composition of all parameters of a plan.
//!
//! All tensors lie in the engine's flat parameter storage:
//!
//! - trained: dense weights and vectors, templates, patterns, coefficients, rank-one factors, and
//!   with stretched and rank-one tiling the banks ([`bank_name`]) from which templates are read;
//! - computed, in no optimizer group: composed weights, with patterns the rows that mix cells, and
//!   with banks the templates.
//!
//! [`Bank::compose`] writes the composed weights. [`Bank::compose_backward`] turns dL/dW into the
//! gradients of templates, coefficients and banks. A dense plan has no template sets: its weights
//! are trained in place, and composing does nothing.

mod compose;
mod init;
mod names;
mod probe;
mod rows;
mod subset;
mod transfer;

pub use compose::{Bank, declare};
pub use init::initialize;
pub use names::{
    bank_name, coefficients_name, factors_name, kind_of, patterns_name, scope, templates_name,
    weight_name,
};
pub use probe::{CoefficientProbe, declare_probe};
pub(crate) use rows::Rows;
pub use rows::{live_rows, pattern_rows};
pub use subset::BankSubset;
pub(crate) use subset::unused_ranges;
