//! One file per verb.

pub mod bench;
pub mod data;
pub mod plan;
pub mod report;
pub mod search;
pub mod sweep;
pub mod train;
