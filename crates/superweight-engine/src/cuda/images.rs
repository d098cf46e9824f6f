//! Images that stay on the GPU as bytes; a batch is drawn by one kernel.

use super::buffer::{Allocation, Place, upload};
use super::error::CudaError;
use super::launch::launch;
use super::{CudaDevice, Storages};
use crate::graph::Shape;
use crate::images::{ImageDraw, ImageSet};
use crate::program::{Region, Space};

/// A data set on the device, and the batch that comes next.
#[derive(Debug)]
pub struct CudaImages {
    shape: Shape,
    count: usize,
    pixels: Allocation,
    classes: Allocation,
    table: Allocation,
    /// How many are drawn, in the room of one draw, and the draws.
    draws: Allocation,
    room: usize,
}

impl CudaImages {
    pub(super) fn new(device: &CudaDevice, set: &ImageSet, batch: usize) -> Result<Self, CudaError> {
        let context = &device.context;
        let table: Vec<f32> = set.table.iter().flatten().copied().collect();
        Ok(Self {
            shape: set.shape,
            count: set.classes.len(),
            pixels: Allocation::of(context, "the images", set.pixels.as_ref().as_ref())?,
            classes: Allocation::of(context, "the images' classes", &set.classes)?,
            table: Allocation::of(context, "the table of pixels", &table)?,
            draws: Allocation::zeros(context, "the batch", (batch + 1) * size_of::<ImageDraw>())?,
            room: batch,
        })
    }

    pub(super) fn set_draws(&self, device: &CudaDevice, draws: &[ImageDraw]) -> Result<(), CudaError> {
        let Shape { height, width, .. } = self.shape;
        let is_beyond = |draw: &&ImageDraw| {
            let [top, left, rows, columns] = draw.part.map(|n| n as usize);
            draw.image as usize >= self.count || top + rows > height || left + columns > width
        };
        let asked = draws.iter().find(is_beyond);
        if draws.len() > self.room || asked.is_some() {
            let ImageDraw { image, part, .. } = asked.copied().unwrap_or_default();
            let reason = format!(
                "{} images drawn (room for {}), part {part:?} of image {image} of {}",
                draws.len(),
                self.room,
                self.count
            );
            return Err(CudaError::call("drawing a batch", reason));
        }
        // One copy: the number of draws travels in front of them.
        let mut sent = Vec::with_capacity(draws.len() + 1);
        sent.push(ImageDraw::plain(draws.len() as u32));
        sent.extend_from_slice(draws);
        upload(&device.context, self.draws.pointer, &sent)
    }

    pub(super) fn draw(
        &self,
        device: &CudaDevice,
        storages: &Storages<CudaDevice>,
        to: Region,
        classes: Region,
    ) {
        let base = storages[Space::Io as usize].base();
        let at = |region| Place::of(&device.context, base, region).pointer;
        let (to_at, labels) = (at(to), at(classes));
        let Shape { height, width, channels } = self.shape;
        let rows = to.len / self.shape.len();
        assert!(rows <= classes.len, "a class for every image");
        let [height, width, channels] = [height, width, channels].map(|size| size as u32);
        let (count, draws) = (self.draws.pointer, self.draws.pointer + size_of::<ImageDraw>() as u64);
        let (pixels, known, table) = (self.pixels.pointer, self.classes.pointer, self.table.pointer);
        let n = rows * self.shape.len();
        let (grid, rows) = (device.kernels.flat(n), classes.len as u32);
        // SAFETY: `set_draws` let through only images and parts that are there; the regions are of the layout that the storage was
        // allocated for.
        unsafe {
            launch!(
                device.kernels,
                "draw_images",
                grid,
                pixels,
                known,
                table,
                draws,
                count,
                to_at,
                labels,
                n as u64,
                rows,
                height,
                width,
                channels,
            );
        }
    }
}
