//! Computes weights from shared parameters on a GPU: mixing of templates, and bank views.

mod factors;
pub(super) mod mix;
mod piece;
pub(super) mod views;
