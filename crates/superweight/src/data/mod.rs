//! Images: where they come from, in which order they are seen, how a batch is made of them.
//!
//! ```text
//! fetch / --from ─► source ─► cifar | python | idx ─► Dataset ─► ValidationSplit ─► epoch_order ─► Augment ─► Batch
//! ```
//!
//! | file | question |
//! |---|---|
//! | `catalogue` | which data sets are known: files, sizes, digests, addresses, means |
//! | `folder`, `fetch`, `staging`, `download`, `verify` | where they lie, how they get there, whether they are whole |
//! | `source`, `archive` | the files of a set out of a folder, a file or an archive |
//! | `cifar`, `python`, `pickle`, `idx`, `embedded` | one layout each |
//! | `pictures`, `pack`, `picture`, `orientation`, `own` | pictures of one's own: found, turned upright, made one size; the set they become |
//! | `dataset`, `bytes`, `split` | images in memory, or in a file that does not fit there; what is held out |
//! | `random`, `order`, `augment` | pure functions of (seed, phase, epoch, image) |
//! | `batch` | tables of what a device draws |
//!
//! ```
//! use std::sync::Arc;
//! use superweight::data::{self, Augment, Batches, Dataset, Phase, ValidationSplit, TrainBatches};
//!
//! let data = Arc::new(Dataset::open("fashion-mnist-10k", &data::standard_folder()?)?);
//! let split = ValidationSplit::hold_out(&data.train.labels, data.classes.len(), 1000, 0)?;
//! let mut batches = TrainBatches::new(data, split.train, 128, Augment::CIFAR, 7, Phase::Train)?;
//! let mut batch = batches.buffer();
//! for step in 0..batches.steps_per_epoch() {
//!     batches.fill(step, &mut batch)?;
//!     assert_eq!(batch.len(), 128); // what is drawn; the pixels are on the device: Dataset::image_set
//! }
//! # Ok::<(), data::DataError>(())
//! ```

mod augment;
mod batch;
mod bytes;
mod dataset;
mod error;
#[cfg(fuzzing)]
pub mod fuzzing;
mod images;
mod open;
mod order;
mod pictures;
mod random;
mod sources;
mod split;
#[cfg(test)]
pub(crate) mod testing;

pub use augment::{Augment, Hole, Piece, Placement};
pub use batch::{Batch, Batches, EvalBatches, TrainBatches};
pub use bytes::Bytes;
pub use dataset::Dataset;
pub use error::DataError;
pub use images::{EvalSplit, Images, Normalization, Split};
pub use order::epoch_order;
pub use pictures::folder::Pictures;
pub use pictures::own::{MOST_SIDE, OwnSet, SET};
pub use pictures::pack::Packed;
pub use pictures::picture::{MOST_PIXELS, Picture};
pub use random::{Counter, Phase, Stream};
pub use sources::catalogue::{CATALOGUE, Description, Entry, FileEntry, Layout, find};
pub use sources::fetch::{Step, fetch, install};
pub use sources::folder::standard_folder;
pub use sources::npy::{
    CORRUPTED_IMAGES, Header as NpyHeader, corrupted, read_rows as read_npy_rows,
    rows_of as npy_rows_of,
};
pub use sources::verify::{FileState, Presence, State, presence, verify};
pub use split::ValidationSplit;
