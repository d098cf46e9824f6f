//! SuperWeight Networks.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod bench;
pub mod lower;
