//! Images.

mod mapped;
mod pixels;
mod set;

pub use mapped::Mapped;
pub use pixels::Pixels;
pub use set::{ImageDraw, ImageSet};
