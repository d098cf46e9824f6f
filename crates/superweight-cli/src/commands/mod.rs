//! One file per verb.

pub mod anytime;
pub mod bench;
pub mod data;
pub mod demo;
mod device;
pub mod eval;
pub mod export;
pub mod plan;
pub mod predict;
pub mod report;
pub mod search;
pub mod sweep;
pub mod train;
