//! A run is a folder with recipe, checkpoints, a log of events and curves.
//!
//! ```text
//! runs/NAME/
//!   recipe.toml  resolved.toml   the recipe as the user wrote it, and with every default filled in
//!   checkpoints/NNNN/            plan, parameters, optimizer, state, digests
//!   checkpoints/latest           number of the newest checkpoint; the last two are kept
//!   log.jsonl  events.*          one line per event; curves for TensorBoard
//!   statistics.safetensors       what search and refinement decided from
//!   commands.jsonl               command lines and devices of the processes that trained the run
//!   lock                         held by the process that writes the run
//! ```
//!
//! A kill at any moment, a full disk or a power cut leaves the old checkpoint or the new one,
//! whole.
//!
//! | file | question |
//! |---|---|
//! | `open` | what does a run contain? |
//! | `folder`, `lock` | which process owns a name, and which one may write? |
//! | `checkpoint`, `checkpoints` | which files make one; in which order is one added? |
//! | `disk` | between which operations can a crash come? |
//! | `tensors`, `dtype`, `safetensors` | named tensors in memory and in files |
//! | `event`, `log`, `tensorboard` | what happened, for programs and as curves |
//! | `invocation` | which commands trained the run, on which devices? |
//!
//! ```
//! use superweight::run::{Checkpoint, Event, Existing, RunFolder, Tensor, WarningEvent};
//! # let runs = std::env::temp_dir().join(format!("superweight-run-doc-{}", std::process::id()));
//!
//! let run = RunFolder::create(&runs, "demo", Existing::NextName, "seed = 7\n", "seed = 7\n")?;
//! let mut log = run.log()?;
//! log.add(Event::Warning(WarningEvent { warning: "the GPU is hot".to_owned() }))?;
//! let mut checkpoint = Checkpoint { plan: "{}".to_owned(), ..Checkpoint::default() };
//! checkpoint.bank.insert("templates", Tensor::new(&[2, 3], vec![0f32; 6]));
//! checkpoint.state.log_bytes = log.position()?;
//! run.checkpoints().save(1, &checkpoint)?;
//! # let path = run.path().to_owned();
//! drop((run, log));
//!
//! let resumed = RunFolder::resume(&path)?;
//! assert_eq!(resumed.loaded.expect("checkpoint 1 was saved").checkpoint, checkpoint);
//! # std::fs::remove_dir_all(&runs).ok();
//! # Ok::<(), superweight::run::RunError>(())
//! ```

mod checkpoint;
mod checkpoints;
#[cfg(test)]
mod crash_tests;
mod disk;
mod dtype;
mod error;
mod event;
mod folder;
mod invocation;
mod lock;
mod log;
mod open;
pub mod safetensors;
mod tensorboard;
mod tensors;
#[cfg(test)]
mod testing;

pub use checkpoint::{Checkpoint, State};
pub use checkpoints::{Checkpoints, Loaded, Stamp, Warning};
pub use disk::{Disk, DiskFile, Operation};
pub use dtype::Dtype;
pub use error::RunError;
pub use event::{
    Accuracy, DecisionEvent, EpochEvent, EvalEvent, Evaluation, Event, ResumeEvent, StartEvent,
    StopEvent, TrainFigures, WarningEvent, WeightDecayGroup,
};
pub use folder::{Existing, Resumed, RunFolder, load_checkpoint, load_parameters};
pub(crate) use folder::{LOG, RECIPE, RESOLVED, text_of};
pub(crate) use invocation::without_folders;
pub use invocation::{COMMANDS, Invocation};
pub use log::{Cut, Line, Log, parse_log, read_log};
pub use open::{OpenRun, read_resolved, start_of, stop_of};
pub use tensorboard::TensorBoard;
pub use tensors::{Element, Tensor, Tensors, Values};
