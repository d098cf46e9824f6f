//! The bank: one owner of every trainable number, and what the members' weights are made of.
//!
//! All numbers lie in the engine's flat parameter storage: dense tensors and vectors where the graphs read them, then
//! per template set its templates, its patterns where it has such and its coefficient rows, and what is made of them, which no
//! optimizer touches: the composed weights and, with patterns, the rows that cells are mixed by. Templates that are looked at in a
//! cluster's numbers ([`bank_name`]) are made of them, too.
//! [`Bank::compose`] writes the composed weights, [`Bank::compose_backward`] turns dL/dW into gradients of templates
//! and coefficients. A dense plan has no sets: its weights are trained in place and composing costs nothing.

mod compose;
mod init;
mod names;
mod subset;
mod probe;
mod rows;
mod transfer;

pub use compose::{Bank, declare};
pub use init::initialize;
pub use names::{
    coefficients_name, factors_name, kind_of, bank_name, patterns_name, scope, templates_name,
    weight_name,
};
pub use subset::BankSubset;
pub(crate) use subset::unused_ranges;
pub use probe::{CoefficientProbe, declare_probe};
pub(crate) use rows::Rows;
pub use rows::{live_rows, pattern_rows};
