//! Images.

mod mapped;
mod pixels;
mod set;

pub use mapped::MappedFile;
pub use pixels::Pixels;
pub use set::{ImageSample, ImageSet};
