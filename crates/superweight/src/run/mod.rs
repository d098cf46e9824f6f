//! A run is a folder: what was asked, checkpoints, a log, curves.
//!
//! ```text
//! runs/NAME/
//!   recipe.toml  resolved.toml   what the user asked; every default filled in
//!   checkpoints/NNNN/            plan.json, bank|members|optimizer[|average].safetensors, state.json, SHA256SUMS
//!   checkpoints/latest           names the newest; the last two are kept
//!   log.jsonl  events.*          a line per epoch and event; TensorBoard
//!   statistics.safetensors       what search and refinement decided from
//!   commands.jsonl               what was typed, and where it ran
//!   lock                         the process that writes
//! ```
//!
//! A kill at any moment leaves the old checkpoint or the new one, whole; so does a full disk, or a power cut.
//!
//! | file | question |
//! |---|---|
//! | `folder`, `lock` | whose is a name, and who may write? |
//! | `checkpoint`, `checkpoints` | which files make one; in which order is one added? |
//! | `disk` | which operations are there to crash between? |
//! | `tensors`, `safetensors` | named numbers in memory and in files |
//! | `log`, `tensorboard` | what happened, for `jq` and as curves |
//!
//! ```
//! use superweight::run::{Checkpoint, Event, Existing, Facts, RunFolder, Tensor};
//! # let runs = std::env::temp_dir().join(format!("superweight-run-doc-{}", std::process::id()));
//!
//! let run = RunFolder::create(&runs, "demo", Existing::NextName, "seed = 7\n", "seed = 7\n")?;
//! let mut log = run.log()?;
//! log.add(Event::Start(Facts::from([("seed", 7)])))?;
//! let mut checkpoint = Checkpoint { plan: "{}".to_owned(), ..Checkpoint::default() };
//! checkpoint.bank.insert("templates", Tensor::new(&[2, 3], vec![0f32; 6]));
//! checkpoint.state.log_bytes = log.position()?;
//! run.checkpoints().save(1, &checkpoint)?;
//! # let path = run.path().to_owned();
//! drop((run, log));
//!
//! let resumed = RunFolder::resume(&path)?;
//! assert_eq!(resumed.loaded.expect("one was saved").checkpoint, checkpoint);
//! # std::fs::remove_dir_all(&runs).ok();
//! # Ok::<(), superweight::run::RunError>(())
//! ```

mod checkpoint;
mod checkpoints;
#[cfg(test)]
mod crash_tests;
mod disk;
mod error;
mod event;
mod folder;
mod invocation;
mod lock;
mod log;
pub mod safetensors;
mod tensorboard;
mod tensors;
#[cfg(test)]
mod testing;

pub use checkpoint::{Checkpoint, State};
pub use checkpoints::{Checkpoints, Loaded, Stamp, Warning};
pub use disk::{Disk, DiskFile, Operation};
pub use error::RunError;
pub use folder::{COMMANDS, Existing, Resumed, RunFolder, load_checkpoint};
pub(crate) use folder::{LOG, RECIPE, RESOLVED, text_of};
pub use event::{
    Accuracy, DecisionEvent, EpochEvent, EvalEvent, Evaluation, Event, ResumeEvent, StartEvent,
    StopEvent, TrainFigures, WarningEvent, WeightDecayGroup,
};
pub use invocation::Invocation;
pub(crate) use invocation::without_folders;
pub use log::{Cut, Line, Log, parse_log, read_log};
pub use tensorboard::TensorBoard;
pub use tensors::{Dtype, Element, Tensor, Tensors, Values};
