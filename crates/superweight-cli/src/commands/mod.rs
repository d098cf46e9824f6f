//! One file per verb.

pub mod plan;
