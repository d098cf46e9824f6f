//! Anytime prediction: the most accurate subset of members that fits into a deadline.
//!
//! ```text
//! members ─► latencies, interleaved ─┐
//!                                    ├─► profile: accuracy, median and p99 of every subset
//! logits of all members ─► subsets ──┘                        │
//!                               image + deadline ─► Predictor ┴─► probabilities, members, time
//! ```
//!
//! The deadline is met by a choice beforehand and by reading the clock between members. The chosen
//! subset has a p99 within the deadline; its members run cheapest first; a member that would end
//! too late does not start. Prior work reports simulated latencies; here the other members really
//! do not run.
//!
//! | file | contents |
//! |---|---|
//! | `clock` | the system's clock, or a test's |
//! | `predict` | the interface of anything with outputs that run one by one |
//! | `latency` | time of each output on this device |
//! | `profile` | accuracy and time of every subset, and its file |
//! | `predictor` | predictions within a deadline |

mod clock;
mod latency;
mod predict;
mod predictor;
mod profile;

pub use clock::{Clock, SystemClock};
pub use latency::{Latencies, Summary, measure};
pub use predict::Predict;
pub use predictor::{AnytimeError, Counts, Prediction, Predictor};
pub use profile::{PROFILE, Profile, ProfileError, SubsetProfile};
