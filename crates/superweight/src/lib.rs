#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod anytime;
pub mod bank;
pub mod bench;
pub mod corrupt;
pub mod data;
pub mod ensemble;
pub mod evaluate;
pub mod export;
pub mod files;
mod fold;
mod heads;
pub mod infer;
pub mod lower;
pub mod random;
pub mod recipe;
mod replay;
pub mod report;
pub mod results;
pub mod run;
pub mod schedule;
pub mod search;
pub mod slim;
pub mod train;
mod turns;
pub mod voices;

pub use superweight_engine as engine;
pub use superweight_plan as plan;
