//! Implementation of [`Device`] for NVIDIA GPUs: prepares calls and submits them to the stream.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys as cu;

use super::bank::mix::Mixer;
use super::bank::views::Viewer;
use super::buffer::{self, Allocation, CudaBuffer, Storages};
use super::context::Context;
use super::fuse;
use super::gpu::Gpu;
use super::images::CudaImages;
use super::launch::{self, Kernels};
use super::named::Named;
use super::ops::conv::Conv;
use super::ops::{Kernel, loss, norm};
use super::precision::Precision;
use super::record::Recording;
use super::sgd::Updater;
use super::tuning::{ConvRecord, Tuning};
use super::view::{Packed, View};
use crate::device::bank_view::BankViewSet;
use crate::device::buffer::{Element, Region, Space};
use crate::device::call::Call;
use crate::device::mix::{MixOutput, MixSet};
use crate::device::sgd::SgdGroups;
use crate::device::{Device, Observer, Schedule};
use crate::error::{CudaError, Error};
use crate::images::{ImageSample, ImageSet};

/// An NVIDIA GPU as a device.
#[derive(Clone)]
pub struct CudaDevice {
    pub(super) gpu: Gpu,
}

impl CudaDevice {
    /// Opens the GPU with this number. Activations and weights have this precision.
    pub fn new(ordinal: usize, precision: Precision) -> Result<Self, Error> {
        let context = Context::new(ordinal, precision)?;
        let kernels = Arc::new(Kernels::load(&context)?);
        Ok(Self { gpu: Gpu { context, kernels } })
    }

    /// Precision of activations and weights.
    pub fn precision(&self) -> Precision {
        self.gpu.context.precision
    }

    /// Sets how much time is spent on choosing the plans of convolutions compiled from now on.
    pub fn set_tuning(&self, tuning: Tuning) {
        self.gpu.context.dnn.set_tuning(tuning);
    }

    /// Deletes all tuned plans, so that programs compiled from now on tune their convolutions
    /// again.
    pub fn clear_tuning(&self) {
        self.gpu.context.dnn.refresh();
    }

    /// From now on, measures each unconfirmed tuned plan again before use. A plan that was chosen
    /// while other work ran on the GPU is tuned again. Do not use this for a resumed run, which
    /// needs its original plans to give the same bits.
    pub fn recheck_tuning(&self) {
        self.gpu.context.dnn.recheck_tuning();
    }

    /// Tuned convolutions for this GPU, driver and cuDNN version.
    pub fn tuned(&self) -> Vec<ConvRecord> {
        self.gpu.context.dnn.records()
    }

    /// Maximum of allocated GPU memory so far, in bytes, without the driver's and libraries' own
    /// memory.
    pub fn peak_allocated_bytes(&self) -> usize {
        self.gpu.context.peak_allocated_bytes()
    }

    /// Name of the GPU and versions of driver and libraries, for logs.
    pub fn description(&self) -> String {
        let (properties, libraries) = (&self.gpu.context.properties, &self.gpu.context.libraries);
        let (major, minor) = libraries.nvrtc.version();
        format!(
            "{} ({}), {}, driver for CUDA {}.{}, NVRTC {major}.{minor}, cuBLASLt {} ({}), cuDNN {} ({})",
            properties.name,
            properties.arch(),
            self.gpu.context.precision.name(),
            properties.driver / 1000,
            properties.driver % 1000 / 10,
            libraries.cublas_lt.version(),
            libraries.cublas_lt.opened.path.display(),
            libraries.cudnn.version(),
            libraries.cudnn.opened.path.display(),
        )
    }

    /// Makes the device current on the calling thread. Stores the failure and returns false if that
    /// fails.
    fn bound(&self) -> bool {
        let bound = self.gpu.context.bind();
        let is = bound.is_ok();
        self.gpu.context.note(bound);
        is
    }
}

impl fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaDevice({:?})", self.gpu.context)
    }
}

impl Device for CudaDevice {
    type Buffer = CudaBuffer;
    type Kernel = Kernel;
    type Mixer = Mixer;
    type Viewer = Viewer;
    type Packed = Packed;
    type Updater = Updater;
    type Images = CudaImages;
    type Recording = Recording;

    fn element_bytes(&self, element: Element) -> usize {
        buffer::element_bytes(self.gpu.context.precision, element)
    }

    fn allocate(&self, space: Space, size: usize, weights: usize) -> Result<CudaBuffer, Error> {
        Ok(CudaBuffer::new(&self.gpu.context, space, size, weights)?)
    }

    fn size(&self, buffer: &CudaBuffer) -> usize {
        buffer.size()
    }

    fn clear(&self, buffer: &mut CudaBuffer) {
        if self.bound() {
            self.gpu.context.note(buffer.clear());
        }
    }

    fn write(&self, buffer: &mut CudaBuffer, region: Region, values: &[f32]) {
        if self.bound() {
            self.gpu.context.note(buffer.write(&self.gpu.context, region, values));
        }
    }

    fn write_indices(&self, buffer: &mut CudaBuffer, region: Region, values: &[u32]) {
        if self.bound() {
            self.gpu.context.note(buffer.write_indices(&self.gpu.context, region, values));
        }
    }

    fn read(&self, buffer: &CudaBuffer, region: Region, values: &mut [f32]) {
        if self.bound() {
            self.gpu.context.note(buffer.read(&self.gpu.context, region, values));
        }
    }

    fn prepare(&self, call: &Call) -> Result<(Kernel, usize), Error> {
        let context = &self.gpu.context;
        context.bind()?;
        let conv = match call {
            Call::ConvForward(call) => Some(Conv::forward(context, call)?),
            Call::ConvBackwardData(call) => Some(Conv::backward_data(context, call)?),
            Call::ConvBackwardWeight(call) => Some(Conv::backward_weight(context, call)?),
            _ => None,
        };
        if let Some((conv, scratch)) = conv {
            return Ok((Kernel(Some(conv)), scratch));
        }
        let scratch = match call {
            Call::NormStatistics(call) => norm::statistics_scratch(context, call),
            Call::NormBackward(call) => norm::backward_scratch(context, call),
            Call::ScaleBackward(call) => norm::scale_backward_scratch(context, call),
            Call::CrossEntropy(call) => loss::scratch(call),
            _ => 0,
        };
        Ok((Kernel(None), scratch))
    }

    fn pack(&self, schedule: &Schedule<Kernel>, storages: &mut Storages) -> Result<Packed, Error> {
        self.gpu.context.bind()?;
        let view = View::new(&self.gpu, schedule.regions(), storages, None);
        let copies = schedule.steps().iter().map(|step| match &step.call {
            Call::ConvForward(call) => view.copy_of(call.w).map(Some),
            _ => Ok(None),
        });
        Ok(Packed(copies.collect::<Result<_, CudaError>>()?))
    }

    fn packed_bytes(&self, packed: &Packed) -> usize {
        packed.0.iter().flatten().map(Allocation::bytes).sum()
    }

    fn run(
        &self,
        schedule: &Schedule<Kernel>,
        storages: &mut Storages,
        packed: Option<&Packed>,
        observer: Option<Observer<'_>>,
    ) {
        if !self.bound() {
            return;
        }
        let view = View::new(&self.gpu, schedule.regions(), storages, packed);
        let steps = schedule.steps();
        let works = fuse::joined(steps, &view);
        match observer {
            None => works.iter().for_each(|work| work.run(steps, &view)),
            Some(observe) => {
                for work in &works {
                    match self.timed(|| work.run(steps, &view)) {
                        Ok(time) => observe(work.first(), time),
                        Err(error) => self.gpu.context.note(Err(error)),
                    }
                }
            }
        }
    }

    fn prepare_sgd(&self, groups: &SgdGroups, parameters: &[Region]) -> Result<Updater, Error> {
        Ok(Updater::new(&self.gpu, groups, parameters)?)
    }

    fn sgd(
        &self,
        updater: &Updater,
        lrs: &CudaBuffer,
        momentum: &mut CudaBuffer,
        storages: &mut Storages,
    ) {
        if self.bound() {
            updater.step(&self.gpu, lrs, momentum, storages);
        }
    }

    fn prepare_mix(&self, sets: &[MixSet]) -> Result<(Mixer, usize), Error> {
        Ok(Mixer::new(&self.gpu, sets)?)
    }

    fn mix(&self, _: &[MixSet], mixer: &Mixer, readers: MixOutput, storages: &mut Storages) {
        if self.bound() {
            mixer.mix(&self.gpu, readers, storages);
        }
    }

    fn mix_backward(&self, _: &[MixSet], mixer: &Mixer, storages: &mut Storages) {
        if self.bound() {
            mixer.backward(&self.gpu, storages);
        }
    }

    fn prepare_views(&self, sets: &[BankViewSet]) -> Result<Viewer, Error> {
        Ok(Viewer::new(&self.gpu, sets)?)
    }

    fn apply_views(&self, viewer: &Viewer, storages: &mut Storages) {
        if self.bound() {
            viewer.apply(&self.gpu, storages);
        }
    }

    fn apply_views_backward(&self, viewer: &Viewer, storages: &mut Storages) {
        if self.bound() {
            viewer.backward(&self.gpu, storages);
        }
    }

    fn accumulate(&self, storages: &Storages, regions: &[Region], sums: &mut CudaBuffer) {
        if !self.bound() {
            return;
        }
        let mut to = sums.base().main;
        for region in regions {
            let place = buffer::Place::of(
                &self.gpu.context,
                storages[region.space as usize].base(),
                *region,
            );
            // Parameters are summed from the f32 copy.
            let narrow = place.bytes == 2 && region.space != Space::Parameters;
            let from = match region.space {
                Space::Parameters => {
                    storages[Space::Parameters as usize].base().main + 4 * region.offset as u64
                }
                _ => place.pointer,
            };
            let (grid, kind) = (self.gpu.kernels.flat(region.len), i32::from(narrow));
            // SAFETY: the region is inside its storage, and `Accumulator` allocated the sums for
            // all regions.
            unsafe {
                launch::launch!(
                    self.gpu.kernels,
                    "accumulate",
                    grid,
                    from,
                    kind,
                    to,
                    region.len as u64
                )
            };
            to += 4 * region.len as u64;
        }
    }

    fn load_images(
        &self,
        set: &ImageSet,
        batch: usize,
        abreast: usize,
    ) -> Result<CudaImages, Error> {
        Ok(CudaImages::new(&self.gpu, set, batch, abreast)?)
    }

    fn set_samples(&self, images: &mut CudaImages, draws: &[ImageSample]) {
        if self.bound() {
            self.gpu.context.note(images.set_samples(&self.gpu, draws));
        }
    }

    fn draw_batch(
        &self,
        images: &CudaImages,
        storages: &mut Storages,
        to: Region,
        classes: Region,
    ) {
        if self.bound() {
            images.draw(&self.gpu, storages, to, classes);
        }
    }

    fn record(
        &self,
        body: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Option<Recording>, Error> {
        Recording::new(&self.gpu.context, body).map(Some)
    }

    fn replay(&self, recording: &Recording) -> Result<(), Error> {
        self.gpu.context.bind()?;
        self.gpu.context.take_failure()?;
        recording.replay()
    }

    fn finish(&self) -> Result<(), Error> {
        self.gpu.context.bind()?;
        let done = self.gpu.context.synchronize();
        self.gpu.context.take_failure()?;
        Ok(done?)
    }
}

impl CudaDevice {
    /// Measures the GPU time of the work that `work` submits.
    fn timed(&self, work: impl FnOnce()) -> Result<Duration, CudaError> {
        let event = || {
            let flags = cu::CUevent_flags::CU_EVENT_DEFAULT;
            self.gpu.context.cuda.new_event(Some(flags)).named("cuEventCreate")
        };
        let (start, end) = (event()?, event()?);
        start.record(&self.gpu.context.stream).named("cuEventRecord")?;
        work();
        end.record(&self.gpu.context.stream).named("cuEventRecord")?;
        let milliseconds = start.elapsed_ms(&end).named("cuEventElapsedTime")?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds) / 1e3))
    }
}
