//! From finished runs to a table beside the paper that anyone can compute again.
//!
//! ```text
//! run folder ─► publish ─► results/cifar-100/NAME/ ─┐
//!   (weights stay behind)                           ├─► check ─► table ─► README.md, between two markers
//!               results/rows.toml, paper.toml ──────┘
//! ```
//!
//! What is published is small enough to be committed and enough to doubt every figure: the class that every member gave
//! every image, the plan, the log. `run.json` says the rest, and nothing in it is believed: [`Published::open`] counts
//! right answers, epochs, seconds and numbers again and refuses a folder where they differ. Not figures copied into a
//! README by hand: those cannot be checked by a test.
//!
//! | file | holds |
//! |---|---|
//! | `run.json` | [`Record`]: command, commit, device, seed, epochs, minutes, numbers, accuracies |
//! | `predictions.gz` | [`Classes`](crate::evaluate::Classes): about 10 KB |
//! | `log.jsonl`, `plan.json` | as the run left them |
//! | `recipe.toml`, `resolved.toml` | as asked, and with every default |
//! | `anytime.json` | where it was measured |
//! | `given.json` | the plan that it began with, where it was given one |
//! | `set.json` | what its pictures were, where they were the user's own |

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

/// Where a record lies in a folder of results.
pub(crate) const RECORD: &str = "run.json";
/// Where its predictions lie.
pub(crate) const PREDICTIONS: &str = "predictions.gz";
