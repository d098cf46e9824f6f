//! Anytime prediction: as many members as the deadline allows, best subset first.
//!
//! ```text
//! members ─► latencies, interleaved ─┐
//!                                    ├─► profile: every subset with accuracy, median and p99, dominated or not
//! logits of all members ─► subsets ──┘                        │
//!                               image + deadline ─► Predictor ┴─► probabilities, members that ran, time used
//! ```
//!
//! The deadline is kept by choice beforehand *and* by looking at the clock between members: a subset is chosen whose p99
//! fits, its members run cheapest first, and a member that would no longer fit is not begun. Prior work reports simulated
//! latencies; here members really do not run.
//!
//! | file | question |
//! |---|---|
//! | `clock` | what time is it? real, or a test's |
//! | `latency` | how long does each member take on this device? |
//! | `profile` | which subsets are worth running? the file |
//! | `predictor` | which members run before a deadline? |

mod clock;
mod latency;
mod predictor;
mod profile;

pub use clock::{Clock, SystemClock};
pub use latency::{Latencies, Summary, measure};
pub use predictor::{Answer, Answers, AnytimeError, Predict, Predictor};
pub use profile::{PROFILE, Profile, ProfileError, SubsetProfile};
