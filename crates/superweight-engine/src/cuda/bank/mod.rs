//! Weights from banks.

mod factors;
pub(super) mod mix;
mod piece;
pub(super) mod views;
