//! Weights from banks.

mod factors;
pub(super) mod mix;
mod rank_one;
mod region;
pub(super) mod views;
