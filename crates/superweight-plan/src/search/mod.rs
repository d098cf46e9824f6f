//! Clusters and coefficient groups from similarities of gradients.

mod assign;
mod clusters;
mod refine;
mod threshold;

pub use assign::{Assignment, Pair, assign, merges};
pub use clusters::{Found, SearchSettings, search};
pub use refine::{CoefficientPairs, Refined, refine};
