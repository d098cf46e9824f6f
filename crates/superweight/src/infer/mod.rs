//! Uses of a trained run: predictions, evaluation, anytime prediction, smaller networks, export.
//!
//! ```text
//! run folder ─► Trained (plan, parameters, recipe) ─► Networks (on a device) ─► probabilities
//! ```
//!
//! ```no_run
//! use std::path::Path;
//! use superweight::data::Picture;
//! use superweight::engine::CpuDevice;
//! use superweight::infer::Trained;
//! use superweight::probability::most_probable;
//!
//! let trained = Trained::open(Path::new("runs/mine"))?;
//! let mut networks = trained.networks(&CpuDevice::new(0)?, 1)?;
//! let picture = Picture::open(Path::new("cat.png"))?;
//! let probabilities = networks.probabilities(&trained.input(&picture)?)?;
//! println!("{}", trained.class_names()?[most_probable(&probabilities)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `trained` | opening a run: plan, parameters, recipe, images |
//! | `networks` | the members on a device: logits, probabilities, state dicts |
//! | `evaluate` | figures of all members and ensembles of a run in one call |
//! | `by_batch` | evaluation of one network with batch statistics |
//! | `interpolate` | figures on the line between two members' weights |
//! | `anytime` | predictions within a deadline |
//! | `slim` | channels that a network can do without |
//! | `export` | files for PyTorch and ONNX Runtime |

pub mod anytime;
pub(crate) mod by_batch;
mod error;
mod evaluate;
pub mod export;
mod interpolate;
mod networks;
pub mod slim;
mod trained;

pub use error::InferError;
pub use evaluate::{evaluate, evaluate_images};
pub use interpolate::Line;
pub use networks::{Networks, normalize};
pub use trained::Trained;
