//! One file per verb.

pub mod data;
pub mod plan;
