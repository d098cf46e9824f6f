//! Images for training: byte storage, data sets, and augmented samples of a batch.

mod mapped;
mod pixels;
mod set;

pub use mapped::MappedFile;
pub use pixels::Pixels;
pub use set::{ImageSample, ImageSet};
