//! Images that stay on the GPU as bytes, or are sent when they are drawn; a batch is drawn by one kernel.

use cudarc::driver::result;

use super::buffer::{Allocation, Place, upload};
use super::launch::launch;
use crate::cuda::buffer::Storages;
use crate::cuda::gpu::Gpu;
use crate::cuda::named::Named;
use crate::device::buffer::{Region, Space};
use crate::error::CudaError;
use crate::images::{ImageSample, ImageSet};
use crate::shape::Shape;

/// A data set on the device, and the batch that comes next.
#[derive(Debug)]
pub struct CudaImages {
    shape: Shape,
    count: usize,
    /// Of all images, or of those that are drawn.
    pixels: Allocation,
    classes: Allocation,
    sent: Option<Sent>,
    table: Allocation,
    /// How many are drawn, in the room of one draw, and the draws.
    draws: Allocation,
    room: usize,
    /// Images of a row of the batch.
    abreast: usize,
}

/// A set that stays on the host.
#[derive(Debug)]
struct Sent {
    set: ImageSet,
    /// What was drawn last, as bytes.
    bytes: Vec<u8>,
}

impl CudaImages {
    /// Of sets that are in memory, those stay on the GPU that take no more than half of what is free there.
    pub(super) fn new(
        gpu: &Gpu,
        set: &ImageSet,
        batch: usize,
        abreast: usize,
    ) -> Result<Self, CudaError> {
        gpu.context.bind()?;
        let (free, _) = result::mem_get_info().named("asking for free memory")?;
        let stay = set.pixels.in_memory() && set.pixels.bytes().len() <= free / 2;
        Ok(Self { abreast, ..Self::staying(gpu, set, batch, stay)? })
    }

    fn staying(gpu: &Gpu, set: &ImageSet, batch: usize, stay: bool) -> Result<Self, CudaError> {
        let context = &gpu.context;
        let [pixels, classes] = ["the images", "the images' classes"];
        let room = |what, bytes| Allocation::zeros(context, what, batch * bytes);
        let (pixels, classes, sent) = match stay {
            true => (
                Allocation::of(context, pixels, set.pixels.bytes())?,
                Allocation::of(context, classes, &set.classes)?,
                None,
            ),
            false => (
                room(pixels, set.shape.len())?,
                room(classes, size_of::<u32>())?,
                Some(Sent { set: set.clone(), bytes: vec![] }),
            ),
        };
        let table: Vec<f32> = set.table.iter().flatten().copied().collect();
        Ok(Self {
            shape: set.shape,
            count: set.classes.len(),
            pixels,
            classes,
            sent,
            table: Allocation::of(context, "the table of pixels", &table)?,
            draws: Allocation::zeros(context, "the batch", (batch + 1) * size_of::<ImageSample>())?,
            room: batch,
            abreast: 1,
        })
    }

    pub(super) fn set_samples(
        &mut self,
        gpu: &Gpu,
        draws: &[ImageSample],
    ) -> Result<(), CudaError> {
        let Shape { height, width, .. } = self.shape;
        let is_beyond = |draw: &&ImageSample| {
            let [top, left, rows, columns] = draw.crop.map(|n| n as usize);
            draw.image as usize >= self.count || top + rows > height || left + columns > width
        };
        let asked = draws.iter().find(is_beyond);
        if draws.len() > self.room || asked.is_some() {
            let ImageSample { image, crop, .. } = asked.copied().unwrap_or_default();
            let reason = format!(
                "{} images drawn (room for {}), crop {crop:?} of image {image} of {}",
                draws.len(),
                self.room,
                self.count
            );
            return Err(CudaError::call("drawing a batch", reason));
        }
        // One copy: the number of draws travels in front of them.
        let mut said = Vec::with_capacity(draws.len() + 1);
        said.push(ImageSample::unchanged(draws.len() as u32));
        said.extend_from_slice(draws);
        if let Some(Sent { set, bytes }) = &mut self.sent {
            // Images are called by their places in the batch then. The GPU is still busy with the last one while they are gathered.
            set.gather(draws, bytes);
            let classes: Vec<u32> =
                draws.iter().map(|draw| set.classes[draw.image as usize]).collect();
            upload(&gpu.context, self.pixels.pointer, bytes)?;
            upload(&gpu.context, self.classes.pointer, &classes)?;
            said[1..].iter_mut().zip(0..).for_each(|(draw, place)| draw.image = place);
        }
        upload(&gpu.context, self.draws.pointer, &said)
    }

    pub(super) fn draw(&self, gpu: &Gpu, storages: &Storages, to: Region, classes: Region) {
        let base = storages[Space::Io as usize].base();
        let at = |region| Place::of(&gpu.context, base, region).pointer;
        let (to_at, labels) = (at(to), at(classes));
        let Shape { height, width, channels } = self.shape;
        let drawn = to.len / self.shape.len();
        assert!(drawn <= classes.len, "a class for every image");
        let [height, width, channels, abreast] =
            [height, width, channels, self.abreast].map(|size| size as u32);
        let (count, draws) =
            (self.draws.pointer, self.draws.pointer + size_of::<ImageSample>() as u64);
        let (pixels, known, table) =
            (self.pixels.pointer, self.classes.pointer, self.table.pointer);
        let n = drawn * self.shape.len();
        let (grid, rows) = (gpu.kernels.flat(n), classes.len as u32);
        // SAFETY: `set_samples` let through only images and parts that are there; the regions are of the layout that the storage was
        // allocated for.
        unsafe {
            launch!(
                gpu.kernels,
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
                abreast,
            );
        }
    }
}
