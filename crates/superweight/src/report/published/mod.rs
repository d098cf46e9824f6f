//! Finished runs as small files, and a table beside the paper that can be computed again from them.
//!
//! ```text
//! run folder ─► publish ─► results/cifar-100/NAME/ ─┐
//!   (without weights)                               ├─► check ─► table ─► README.md
//!               results/rows.toml, paper.toml ──────┘
//! ```
//!
//! The files of a published run are small enough to be committed and sufficient to check its
//! figures: the predicted class of every image by every member, the plan, the log.
//! [`Published::open`] does not trust the record in `run.json`: it counts correct predictions,
//! epochs, seconds and parameters again and refuses a folder in which they differ. Figures copied
//! into a README by hand could not be tested.
//!
//! | file | contents |
//! |---|---|
//! | `run.json` | [`Record`]: command, commit, device, seed, epochs, minutes, parameters, accuracies |
//! | `predictions.gz` | [`Classes`](crate::evaluate::Classes): about 10 KB |
//! | `log.jsonl`, `plan.json` | copies of the run's files |
//! | `recipe.toml`, `resolved.toml` | the recipe as written, and with every default filled in |
//! | `anytime.json` | times, if they were measured |
//! | `given.json` | the plan that the run started from, if it was given one |
//! | `set.json` | description of the user's own pictures, if the run used them |

mod check;
mod error;
mod publish;
mod record;
mod rows;
mod table;

pub use check::{Published, open_all};
pub use error::ResultsError;
pub use publish::{Provenance, publish};
pub use record::{Accuracies, ChosenOn, Epochs, ImageCounts, Minutes, Record, USUAL_EPOCHS};
pub use rows::{PaperCell, RowRequest, load_rows};
pub use table::{BEGIN, END, insert, table};
