#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod data;
pub mod files;
pub mod run;

pub use superweight_engine as engine;
pub use superweight_plan as plan;
