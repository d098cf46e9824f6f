//! Image batches on the GPU. Images are kept there as bytes, or sent when a batch uses them. One
//! kernel augments a batch.

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

/// A data set and the samples of the next batch.
#[derive(Debug)]
pub struct CudaImages {
    shape: Shape,
    count: usize,
    /// Bytes of all images, or of the images of one batch.
    pixels: Allocation,
    classes: Allocation,
    sent: Option<Sent>,
    table: Allocation,
    /// Number of samples, stored in the space of one sample, followed by the samples.
    draws: Allocation,
    room: usize,
    /// Images per row of the batch.
    abreast: usize,
}

/// A set that stays on the host.
#[derive(Debug)]
struct Sent {
    set: ImageSet,
    /// Bytes of the last batch's images.
    bytes: Vec<u8>,
}

impl CudaImages {
    /// Keeps the set on the GPU if it is in memory and takes at most half of the free GPU memory.
    pub(super) fn new(
        gpu: &Gpu,
        set: &ImageSet,
        batch: usize,
        abreast: usize,
    ) -> Result<Self, CudaError> {
        gpu.context.bind()?;
        let (free, _) = result::mem_get_info().named("reading the free memory")?;
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
        let out_of_range = |draw: &&ImageSample| {
            let [top, left, rows, columns] = draw.crop.map(|n| n as usize);
            draw.image as usize >= self.count || top + rows > height || left + columns > width
        };
        let invalid = draws.iter().find(out_of_range);
        if draws.len() > self.room || invalid.is_some() {
            let ImageSample { image, crop, .. } = invalid.copied().unwrap_or_default();
            let reason = format!(
                "{} images drawn (room for {}), crop {crop:?} of image {image} of {}",
                draws.len(),
                self.room,
                self.count
            );
            return Err(CudaError::call("drawing a batch", reason));
        }
        // The number of samples precedes them, so one copy suffices.
        let mut samples = Vec::with_capacity(draws.len() + 1);
        samples.push(ImageSample::unchanged(draws.len() as u32));
        samples.extend_from_slice(draws);
        if let Some(Sent { set, bytes }) = &mut self.sent {
            // The images are then numbered by their position in the batch. The GPU is still busy
            // with the previous batch while they are gathered.
            set.gather(draws, bytes);
            let classes: Vec<u32> =
                draws.iter().map(|draw| set.classes[draw.image as usize]).collect();
            upload(&gpu.context, self.pixels.pointer, bytes)?;
            upload(&gpu.context, self.classes.pointer, &classes)?;
            samples[1..].iter_mut().zip(0..).for_each(|(draw, place)| draw.image = place);
        }
        upload(&gpu.context, self.draws.pointer, &samples)
    }

    pub(super) fn draw(&self, gpu: &Gpu, storages: &Storages, to: Region, classes: Region) {
        let base = storages[Space::Io as usize].base();
        let at = |region| Place::of(&gpu.context, base, region).pointer;
        let (to_at, labels) = (at(to), at(classes));
        let Shape { height, width, channels } = self.shape;
        let drawn = to.len / self.shape.len();
        assert!(drawn <= classes.len, "every image needs a class");
        let [height, width, channels, abreast] =
            [height, width, channels, self.abreast].map(|size| size as u32);
        let (count, draws) =
            (self.draws.pointer, self.draws.pointer + size_of::<ImageSample>() as u64);
        let (pixels, known, table) =
            (self.pixels.pointer, self.classes.pointer, self.table.pointer);
        let n = drawn * self.shape.len();
        let (grid, rows) = (gpu.kernels.flat(n), classes.len as u32);
        // SAFETY: `set_samples` accepted only existing images and crops; the regions belong to the
        // layout of the storage.
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
