//! Computes weights from shared parameters on the CPU: mixing of templates, and bank views.

mod factors;
pub(super) mod mix;
mod rank_one;
mod region;
pub(super) mod views;
