//! Training: from a recipe to a run folder, and from a run folder to its end.
//!
//! ```text
//! recipe ─► plan, ensemble, images ─► Session ─► phase ─► epoch: steps ─► validation ─► log
//!                  ▲                                           ▲                          │
//!          newest checkpoint ◄─────────────────────────────────┴──────────────────── checkpoint
//! ```
//!
//! A [`Session`] holds everything that changes while a run trains. A checkpoint holds the part that
//! the recipe does not determine: parameters, momentum, running statistics and position. Learning
//! rates, the order of images and augmentation are functions of the position. So N epochs, a resume
//! and N more epochs give the same bits as 2N epochs.
//!
//! Checkpoints are written between epochs only. A kill loses at most the current epoch, or as many
//! epochs as the caller puts between two checkpoints (a checkpoint of WRN-28-10 has 292 MB).
//!
//! | file | what it does |
//! |---|---|
//! | `setup` | opens a recipe or a run folder: plan, images, ensemble; reports what is wrong before training starts |
//! | `branch` | starts a run from another run's checkpoint, with other settings for the epochs that remain |
//! | `session`, `phase` | state of a run; its phases and position |
//! | `training`, `epoch`, `trainer` | the training loop, one epoch, one step |
//! | `weight_decay` | weight decay of every kind of parameter |
//! | `swa` | stochastic weight averaging over the last epochs |
//! | `evaluate` | accuracy and NLL of members and ensemble |
//! | `checkpoint` | which tensors a checkpoint holds, and how they are restored |
//! | `sharing` | when clusters and coefficient groups are decided, and how training continues |
//! | `stop` | limits, and the reasons why a run ends |
//! | `progress`, `record` | what an observer receives; what goes into the log |

mod branch;
#[cfg(test)]
mod branch_tests;
mod checkpoint;
#[cfg(test)]
mod crash_tests;
mod epoch;
mod error;
mod evaluate;
mod phase;
mod progress;
mod record;
#[cfg(test)]
mod resume_tests;
mod session;
mod setup;
mod sharing;
#[cfg(test)]
mod sharing_tests;
mod stop;
mod swa;
#[cfg(test)]
mod swa_tests;
#[cfg(test)]
mod testing;
mod trainer;
mod training;
mod weight_decay;

pub use branch::Branch;
pub use checkpoint::{RestoreError, capture, restore, restore_parameters};
pub use error::TrainError;
pub use evaluate::Tally;
pub use phase::{Phase, Position, Stage};
pub use progress::{Decided, EpochReport, Observer, Outcome, Progress, Ready, StepReport};
pub use session::Session;
pub use setup::Request;
pub use stop::{Limits, Stopped, UntilStopped};
pub use trainer::{GradientHook, Trainer};
