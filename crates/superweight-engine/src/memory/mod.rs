//! State that outlives a run: the memory of a device, and what works on it between runs (optimizer,
//! mixing, bank views, sums).

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
