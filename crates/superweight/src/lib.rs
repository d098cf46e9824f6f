#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod bench;
pub mod corrupt;
pub mod data;
pub mod evaluate;
#[doc(hidden)]
pub mod fs;
pub mod infer;
pub mod model;
pub mod probability;
pub mod recipe;
pub mod report;
#[doc(hidden)]
pub mod rng;
pub mod run;
pub mod search;
pub mod train;

pub use superweight_engine as engine;
pub use superweight_plan as plan;
