//! What outlives a run.

mod accumulate;
mod bank_view;
#[expect(clippy::module_inception)]
mod memory;
mod mix;
mod sgd;

pub use accumulate::Accumulator;
pub use bank_view::BankViews;
pub use memory::{Frozen, Memory, Metrics};
pub use mix::Mix;
pub use sgd::{Sgd, SgdSubset};
