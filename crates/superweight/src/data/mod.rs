//! Images: where they come from, in which order they are seen, how a batch is made of them.
//!
//! ```text
//! fetch / --from ─► source ─► cifar | python | idx ─► Dataset ─► Split ─► epoch_order ─► Augment ─► Batch
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
//! use superweight::data::{self, Augment, Batches, Dataset, Phase, Split, TrainBatches};
//!
//! let data = Arc::new(Dataset::open("fashion-mnist-10k", &data::standard_folder()?)?);
//! let split = Split::hold_out(&data.train.labels, data.classes.len(), 1000, 0)?;
//! let mut batches = TrainBatches::new(data, split.train, 128, Augment::CIFAR, 7, Phase::Train)?;
//! let mut batch = batches.buffer();
//! for step in 0..batches.steps_per_epoch() {
//!     batches.fill(step, &mut batch)?;
//!     assert_eq!(batch.len(), 128); // what is drawn; the pixels are on the device: Dataset::image_set
//! }
//! # Ok::<(), data::DataError>(())
//! ```

mod archive;
mod augment;
mod batch;
mod bytes;
mod catalogue;
mod cifar;
mod classes;
mod dataset;
mod download;
mod embedded;
mod error;
mod fetch;
mod folder;
#[cfg(fuzzing)]
pub mod fuzzing;
mod idx;
mod npy;
mod order;
mod orientation;
mod own;
mod pack;
mod pickle;
mod picture;
mod pictures;
mod python;
mod random;
mod source;
mod split;
mod staging;
#[cfg(test)]
pub(crate) mod testing;
mod verify;

pub use augment::{Augment, Hole, Piece, Placement};
pub use batch::{Batch, Batches, EvalBatches, TrainBatches};
pub use bytes::Bytes;
pub use catalogue::{CATALOGUE, Description, Entry, FileEntry, Layout, find};
pub use dataset::{Dataset, Images, Normalisation, Part};
pub use error::DataError;
pub use fetch::{Step, fetch, install};
pub use folder::standard_folder;
pub use npy::{
    CORRUPTED_IMAGES, Header as NpyHeader, corrupted, read_rows as read_npy_rows,
    rows_of as npy_rows_of,
};
pub use order::epoch_order;
pub use own::{MOST_SIDE, OwnSet, SET};
pub use pack::Packed;
pub use picture::{MOST_PIXELS, Picture};
pub use pictures::Pictures;
pub use random::{Counter, Phase, Stream};
pub use split::Split;
pub use verify::{FileState, Presence, State, presence, verify};
