//! Clusters and coefficient groups from similarities of gradients.

mod assign;
mod clusters;
mod refine;
mod threshold;

pub use assign::{Assignment, Pair, assign, merges};
pub use clusters::{SearchSettings, SearchedPlan, search};
pub use refine::{CoefficientPairs, RefinedPlan, refine};
