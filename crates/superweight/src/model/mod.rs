//! From a sharing plan to networks that run on a device.
//!
//! ```text
//! plan ─► bank (templates, coefficients) ─► composed weights ─► graph of each member
//!                                                                └─► loss, logits, dL/dW
//! ```

#[doc(hidden)]
pub mod bank;
pub mod ensemble;
pub(crate) mod fold;
#[doc(hidden)]
pub mod lower;
pub(crate) mod member_schedule;
pub(crate) mod mimo;
pub(crate) mod outputs;
pub(crate) mod recording;
mod subset;

pub use outputs::{Outputs, TooMany};
pub use subset::{MAX_MEMBERS, OutputId, Subset};
