//! Images: known data sets and pictures of the user, their order, augmentation and batches.
//!
//! ```text
//! fetch / --from ─► source ─► cifar | python | idx ─► Dataset
//! Dataset ─► ValidationSplit ─► epoch_order ─► Augment ─► Batch
//! ```
//!
//! | file | question |
//! |---|---|
//! | `sources/catalog`, `classes` | which data sets are known: files, sizes, digests, addresses, means, class names |
//! | `sources/folder`, `fetch`, `staging`, `download`, `verify` | where is the data folder, how do files get there, are they whole? |
//! | `sources/source`, `archive` | which files of a data set does a folder, a file or an archive have? |
//! | `sources/cifar`, `python`, `pickle`, `idx`, `npy`, `embedded` | one file layout each |
//! | `pictures/folder`, `decode`, `format`, `orientation`, `picture` | which pictures are in a folder, and what do they show? |
//! | `pictures/pack`, `own` | the data set that pictures become, and its files |
//! | `open`, `dataset`, `images`, `bytes` | images in memory, or in a file that is larger than memory |
//! | `split` | which training images are for validation? |
//! | `random`, `order`, `augment` | pure functions of (seed, phase, epoch, image) |
//! | `batch` | tables of images and placements for a device |
//!
//! ```
//! use std::sync::Arc;
//! use superweight::data::{self, Augment, Batches, Dataset, Phase, TrainBatches, ValidationSplit};
//!
//! # if cfg!(feature = "embedded-data") {
//! let data = Arc::new(Dataset::open("fashion-mnist-10k", &data::standard_folder()?)?);
//! let split = ValidationSplit::draw(&data.train.labels, data.classes.len(), 1000, 0)?;
//! let mut batches = TrainBatches::new(data, split.train, 128, Augment::CIFAR, 7, Phase::Train)?;
//! let mut batch = batches.buffer();
//! for step in 0..batches.steps_per_epoch() {
//!     batches.fill(step, &mut batch)?;
//!     assert_eq!(batch.len(), 128); // images and placements; Dataset::image_set has the pixels
//! }
//! # }
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

pub use augment::{Augment, CropBox, Hole, Placement};
pub use batch::{Batch, Batches, EvalBatches, TrainBatches};
pub use bytes::Bytes;
pub use dataset::Dataset;
pub use error::DataError;
pub use images::{EvalSplit, Images, Normalization, Split};
pub use order::epoch_order;
pub use pictures::folder::Pictures;
pub use pictures::format::is_picture;
pub use pictures::own::{MAX_SIDE, OwnSet, SET};
pub use pictures::pack::Packed;
pub use pictures::picture::{MAX_PIXELS, Picture};
pub use random::{Counter, Phase, Stream};
pub use sources::catalog::{CATALOG, Description, Entry, FileEntry, Layout, find};
pub use sources::fetch::{Step, fetch, install};
pub use sources::folder::standard_folder;
pub use sources::npy::{
    CORRUPTED_IMAGES, Header as NpyHeader, corrupted, read_rows as read_npy_rows,
    rows_of as npy_rows_of,
};
pub use sources::verify::{FileState, Presence, State, presence, verify};
pub use split::ValidationSplit;
