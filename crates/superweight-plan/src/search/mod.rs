//! Turns gradient similarities into clusters ([`search`]) and coefficient groups ([`refine`]).
//!
//! Both group layers with [`assign`], the paper's Algorithm 1, and keep the budget.

mod assign;
mod clusters;
mod refine;
mod threshold;

pub use assign::{Assignment, Pair, assign, merges};
pub use clusters::{SearchSettings, SearchedPlan, search};
pub use refine::{CoefficientPairs, RefinedPlan, refine};
