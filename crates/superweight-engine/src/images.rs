//! Images that stay on the device as bytes, and batches drawn from them: flip, shifted crop, normalise, cut out.
//!
//! The host decides which image lands where ([`ImageDraw`]); a device only moves bytes. So every device sees the same
//! batches, and a batch costs a table of 32 bytes per image instead of its pixels: 4 KiB instead of 1.5 MiB for 128 of
//! 32×32.

use std::sync::Arc;

use crate::graph::Shape;

/// A data set as a device takes it in.
#[derive(Clone)]
pub struct ImageSet {
    /// Of every image.
    pub shape: Shape,
    /// `[image][row][column][channel]`.
    pub pixels: Arc<dyn AsRef<[u8]> + Send + Sync>,
    /// The class of every image.
    pub classes: Vec<u32>,
    /// The number every byte becomes, per channel.
    pub table: Vec<[f32; 256]>,
}

/// An image at its place in a batch. Laid out as devices read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ImageDraw {
    /// Which image.
    pub image: u32,
    /// 1 for left to right.
    pub flip: u32,
    /// Row y shows row y + down of the (flipped) image; beyond its border, byte 0.
    pub down: i32,
    /// Column x shows column x + right of the (flipped) image; beyond its border, byte 0.
    pub right: i32,
    /// Rows that are 0 after normalising, where `hole_columns` are too: first, and one past the last.
    pub hole_rows: [u32; 2],
    /// See `hole_rows`.
    pub hole_columns: [u32; 2],
}

impl ImageDraw {
    /// An image as it is.
    pub fn plain(image: u32) -> Self {
        Self { image, ..Self::default() }
    }
}

impl ImageSet {
    /// Writes an image as it is placed. Allocates nothing.
    ///
    /// # Panics
    ///
    /// If there is no such image, or `out` is not as long as one.
    pub fn render(&self, draw: &ImageDraw, out: &mut [f32]) {
        let Shape { channels, .. } = self.shape;
        let len = self.shape.len();
        let image = &self.pixels.as_ref().as_ref()[draw.image as usize * len..][..len];
        assert_eq!(out.len(), len);
        render(self.shape, image, &self.table, draw, out);
        let [first, end] = draw.hole_columns.map(|column| column as usize * channels);
        let rows = out.chunks_exact_mut(self.shape.width * channels);
        for row in rows.take(draw.hole_rows[1] as usize).skip(draw.hole_rows[0] as usize) {
            row[first..end].fill(0.0);
        }
    }
}

/// All but the hole.
fn render(shape: Shape, image: &[u8], table: &[[f32; 256]], draw: &ImageDraw, out: &mut [f32]) {
    let Shape { height, width, channels } = shape;
    for (y, row) in out.chunks_exact_mut(width * channels).enumerate() {
        let from = y.checked_add_signed(draw.down as isize).filter(|&from| from < height);
        let source = from.map(|from| &image[from * width * channels..][..width * channels]);
        for (x, pixel) in row.chunks_exact_mut(channels).enumerate() {
            let from = x.checked_add_signed(draw.right as isize).filter(|&from| from < width);
            let from = from.map(|from| if draw.flip == 1 { width - 1 - from } else { from });
            match source.zip(from).map(|(source, from)| &source[from * channels..][..channels]) {
                Some(source) => {
                    for ((value, table), &byte) in pixel.iter_mut().zip(table).zip(source) {
                        *value = table[usize::from(byte)];
                    }
                }
                None => pixel.iter_mut().zip(table).for_each(|(value, table)| *value = table[0]),
            }
        }
    }
}

impl std::fmt::Debug for ImageSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ImageSet({} of {:?})", self.classes.len(), self.shape)
    }
}
