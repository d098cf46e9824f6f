//! Timing of training and inference steps, and of what sharing adds to a step.
//!
//! [`Bench`] measures steps of plain networks. [`SharedBench`] compares a step with composed
//! weights with a step of the same members without sharing.

mod shared;
mod step;
mod synthetic;

pub use shared::{Comparison, SharedBench};
pub use step::{Bench, BenchRequest, OpReport, StepReport};
