//! What is shared.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod arch;
