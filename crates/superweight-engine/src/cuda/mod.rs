//! CUDA: an NVIDIA GPU through the driver, cuDNN, cuBLASLt and kernels of our own, all opened at run time, so that one
//! binary runs with and without a GPU.
//!
//! | file | question |
//! |---|---|
//! | `libraries.rs`, `context.rs`, `error.rs` | which GPU, which libraries, and what went wrong? |
//! | `compile.rs`, `launch.rs`, `kernels/` | where do kernels come from, how are they started? |
//! | `buffer.rs`, `view.rs` | where does a number lie, and how wide is it there? |
//! | `cudnn/`, `blas.rs` | how are convolutions and matrix products planned? |
//! | `conv.rs`, `direct.rs`, `norm.rs`, `norm_once.rs`, `pool.rs`, `loss.rs`, `view.rs` | one call each |
//! | `together.rs` | which calls are one launch? |
//! | `views.rs`, `mix.rs`, `factors.rs`, `sgd.rs`, `images.rs` | what surrounds a program in a step |
//! | `record.rs`, `counters.rs`, `nodes.rs` | how is a step done again at once? |
//!
//! Determinism is the only mode here too: no float atomics, reductions in a fixed order, deterministic plans.
//!
//! Calls return before they are done. What fails later is remembered and reported by [`Device::finish`] or the next call
//! that can.

mod blas;
mod buffer;
mod compile;
mod context;
mod conv;
mod counters;
mod cudnn;
mod direct;
mod error;
mod factors;
mod images;
mod launch;
mod libraries;
mod loss;
mod mix;
mod nodes;
mod norm;
mod norm_once;
#[cfg(test)]
mod on_device;
mod pool;
mod record;
mod sgd;
mod together;
mod view;
mod views;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys as cu;

use buffer::Allocation;
pub use buffer::CudaBuffer;
pub use compile::compile_all;
pub use context::Precision;
#[cfg(fuzzing)]
pub use cudnn::parse_records;
pub use cudnn::{ConvRecord, Tuning};
pub use error::CudaError;
pub use images::CudaImages;
pub use mix::Mixer;
pub use record::Recording;
pub use sgd::Updater;
pub use views::Viewer;

use crate::device::{Device, Observer, Storages};
use crate::error::Error;
use crate::images::{ImageDraw, ImageSet};
use crate::layout::Layout;
use crate::mix::{Mix, MixReaders, MixSet};
use crate::ops::Call;
use crate::optimizer::SgdGroups;
use crate::program::{Element, Program, Region, Space, Step};
use crate::views::{ViewSet, Views};
use context::Context;
use conv::Conv;
use error::Named;
use launch::Kernels;
use view::View;

/// An NVIDIA GPU.
#[derive(Clone)]
pub struct CudaDevice {
    context: Arc<Context>,
    kernels: Arc<Kernels>,
}

impl CudaDevice {
    /// The GPU of this number, computing in this precision.
    pub fn new(ordinal: usize, precision: Precision) -> Result<Self, Error> {
        let context = Context::new(ordinal, precision)?;
        let kernels = Arc::new(Kernels::load(&context)?);
        Ok(Self { context, kernels })
    }

    /// The precision of activations and weights.
    pub fn precision(&self) -> Precision {
        self.context.precision
    }

    /// How much time convolutions compiled from now on may take to choose.
    pub fn set_tuning(&self, tuning: Tuning) {
        self.context.dnn.set_tuning(tuning);
    }

    /// Forgets tuned plans, so that programs compiled from now on tune theirs anew.
    pub fn refresh_tuning(&self) {
        self.context.dnn.refresh();
    }

    /// From now on, tuned plans that nobody has confirmed are timed once more, and tuned again if they were chosen beside
    /// other work on the GPU. Not for a run that goes on: it needs the plans it began with to give the same bits.
    pub fn check_tuned(&self) {
        self.context.dnn.check_tuned();
    }

    /// The convolutions tuned for this GPU, driver and cuDNN.
    pub fn tuned(&self) -> Vec<ConvRecord> {
        self.context.dnn.records()
    }

    /// Bytes of the GPU's memory that were allocated at most so far. What driver and libraries hold is not among them.
    pub fn most_allocated(&self) -> usize {
        self.context.most_allocated()
    }

    /// What it is and what it runs on, for logs.
    pub fn description(&self) -> String {
        let (properties, libraries) = (&self.context.properties, &self.context.libraries);
        let (major, minor) = libraries.nvrtc.version();
        format!(
            "{} ({}), {}, driver for CUDA {}.{}, NVRTC {major}.{minor}, cuBLASLt {} ({}), cuDNN {} ({})",
            properties.name,
            properties.arch(),
            self.context.precision.name(),
            properties.driver / 1000,
            properties.driver % 1000 / 10,
            libraries.cublas_lt.version(),
            libraries.cublas_lt.opened.path.display(),
            libraries.cudnn.version(),
            libraries.cudnn.opened.path.display(),
        )
    }

    /// Makes the device the calling thread's, or remembers why not.
    fn bound(&self) -> bool {
        let bound = self.context.bind();
        let is = bound.is_ok();
        self.context.note(bound);
        is
    }
}

impl fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaDevice({:?})", self.context)
    }
}

/// What a call keeps from preparation: a convolution its plan, the others nothing.
#[derive(Debug)]
pub struct Kernel(Option<Conv>);

/// Weights of the convolutions of a forward pass as they were; they are copied, not packed.
#[derive(Debug)]
pub struct Packed(Vec<Option<Allocation>>);

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
        buffer::element_bytes(self.context.precision, element)
    }

    fn allocate(&self, space: Space, size: usize, weights: usize) -> Result<CudaBuffer, Error> {
        Ok(CudaBuffer::new(&self.context, space, size, weights)?)
    }

    fn size(&self, buffer: &CudaBuffer) -> usize {
        buffer.size()
    }

    fn clear(&self, buffer: &mut CudaBuffer) {
        if self.bound() {
            self.context.note(buffer.clear());
        }
    }

    fn write(&self, buffer: &mut CudaBuffer, region: Region, values: &[f32]) {
        if self.bound() {
            self.context.note(buffer.write(&self.context, region, values));
        }
    }

    fn write_indices(&self, buffer: &mut CudaBuffer, region: Region, values: &[u32]) {
        if self.bound() {
            self.context.note(buffer.write_indices(&self.context, region, values));
        }
    }

    fn read(&self, buffer: &CudaBuffer, region: Region, values: &mut [f32]) {
        if self.bound() {
            self.context.note(buffer.read(&self.context, region, values));
        }
    }

    fn prepare(&self, call: &Call) -> Result<(Kernel, usize), Error> {
        let context = &self.context;
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

    fn pack(
        &self,
        program: &Program<Self>,
        storages: &mut Storages<Self>,
    ) -> Result<Packed, Error> {
        self.context.bind()?;
        let view = View::new(self, program, storages, None);
        let copies = program.steps().iter().map(|step| match &step.call {
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
        program: &Program<Self>,
        storages: &mut Storages<Self>,
        packed: Option<&Packed>,
        observer: Option<Observer<'_>>,
    ) {
        if !self.bound() {
            return;
        }
        let view = View::new(self, program, storages, packed);
        let steps = program.steps();
        let works = together::joined(steps, &view);
        match observer {
            None => works.iter().for_each(|work| work.run(steps, &view)),
            Some(observe) => {
                for work in &works {
                    match self.timed(|| work.run(steps, &view)) {
                        Ok(time) => observe(work.first(), time),
                        Err(error) => self.context.note(Err(error)),
                    }
                }
            }
        }
    }

    fn prepare_sgd(&self, groups: &SgdGroups, layout: &Layout) -> Result<Updater, Error> {
        Ok(Updater::new(self, groups, layout)?)
    }

    fn sgd(
        &self,
        updater: &Updater,
        rates: &CudaBuffer,
        momentum: &mut CudaBuffer,
        storages: &mut Storages<Self>,
    ) {
        if self.bound() {
            updater.step(self, rates, momentum, storages);
        }
    }

    fn prepare_mix(&self, sets: &[MixSet]) -> Result<(Mixer, usize), Error> {
        Ok(Mixer::new(self, sets)?)
    }

    fn mix(&self, mix: &Mix<Self>, readers: MixReaders, storages: &mut Storages<Self>) {
        if self.bound() {
            mix.mixer().mix(self, readers, storages);
        }
    }

    fn mix_backward(&self, mix: &Mix<Self>, storages: &mut Storages<Self>) {
        if self.bound() {
            mix.mixer().backward(self, storages);
        }
    }

    fn prepare_views(&self, sets: &[ViewSet]) -> Result<Viewer, Error> {
        Ok(Viewer::new(self, sets)?)
    }

    fn view(&self, views: &Views<Self>, storages: &mut Storages<Self>) {
        if self.bound() {
            views.viewer().view(self, storages);
        }
    }

    fn view_backward(&self, views: &Views<Self>, storages: &mut Storages<Self>) {
        if self.bound() {
            views.viewer().backward(self, storages);
        }
    }

    fn accumulate(&self, storages: &Storages<Self>, regions: &[Region], sums: &mut CudaBuffer) {
        if !self.bound() {
            return;
        }
        let mut to = sums.base().main;
        for region in regions {
            let place =
                buffer::Place::of(&self.context, storages[region.space as usize].base(), *region);
            // Parameters are summed as the optimizer has them.
            let narrow = place.bytes == 2 && region.space != Space::Parameters;
            let from = match region.space {
                Space::Parameters => {
                    storages[Space::Parameters as usize].base().main + 4 * region.offset as u64
                }
                _ => place.pointer,
            };
            let (grid, kind) = (self.kernels.flat(region.len), i32::from(narrow));
            // SAFETY: the region lies in its storage, and `Accumulator` gave the sums room for all regions.
            unsafe {
                launch::launch!(self.kernels, "accumulate", grid, from, kind, to, region.len as u64)
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
        Ok(CudaImages::new(self, set, batch, abreast)?)
    }

    fn set_draws(&self, images: &mut CudaImages, draws: &[ImageDraw]) {
        if self.bound() {
            self.context.note(images.set_draws(self, draws));
        }
    }

    fn draw(
        &self,
        images: &CudaImages,
        storages: &mut Storages<Self>,
        to: Region,
        classes: Region,
    ) {
        if self.bound() {
            images.draw(self, storages, to, classes);
        }
    }

    fn record(
        &self,
        body: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Option<Recording>, Error> {
        Recording::new(self, body).map(Some)
    }

    fn replay(&self, recording: &Recording) -> Result<(), Error> {
        self.context.bind()?;
        self.context.take_failure()?;
        recording.replay()
    }

    fn finish(&self) -> Result<(), Error> {
        self.context.bind()?;
        let done = self.context.synchronize();
        self.context.take_failure()?;
        Ok(done?)
    }
}

impl CudaDevice {
    /// How long the GPU takes for what `work` asks of it.
    fn timed(&self, work: impl FnOnce()) -> Result<Duration, CudaError> {
        let event = || {
            let flags = cu::CUevent_flags::CU_EVENT_DEFAULT;
            self.context.cuda.new_event(Some(flags)).named("cuEventCreate")
        };
        let (start, end) = (event()?, event()?);
        start.record(&self.context.stream).named("cuEventRecord")?;
        work();
        end.record(&self.context.stream).named("cuEventRecord")?;
        let milliseconds = start.elapsed_ms(&end).named("cuEventElapsedTime")?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds) / 1e3))
    }
}

/// Puts one step on the stream.
fn execute(index: usize, step: &Step<Kernel>, v: &View<'_>) {
    let scratch = v.at_some(step.scratch);
    match (&step.call, &step.kernel.0) {
        (Call::ConvForward(c), Some(conv)) => {
            conv::forward(c, conv, v, v.frozen(index).unwrap_or(v.at(c.w)), scratch)
        }
        (Call::ConvBackwardData(c), Some(conv)) => conv::backward_data(c, conv, v, scratch),
        (Call::ConvBackwardWeight(c), Some(conv)) => conv::backward_weight(c, conv, v, scratch),
        (Call::BiasForward(c), _) => view::bias_forward(c, v),
        (Call::BiasBackward(c), _) => view::bias_backward(c, v),
        (Call::NormStatistics(c), _) => norm::statistics(c, v, scratch),
        (Call::NormApply(c), _) => norm::apply(c, v),
        (Call::NormBackward(c), _) => norm::backward(c, v, scratch),
        (Call::ScaleForward(c), _) => norm::scale_forward(c, v),
        (Call::ScaleBackward(c), _) => norm::scale_backward(c, v, scratch),
        (Call::ActivationForward(c), _) => view::activation_forward(c, v),
        (Call::ActivationBackward(c), _) => view::activation_backward(c, v),
        (Call::Sum(c), _) => view::sum(c, v),
        (Call::Copy(c), _) => view::copy(c, v),
        (Call::Fill(c), _) => view::zero(c, v),
        (Call::ConcatForward(c), _) => view::concat_forward(c, v),
        (Call::ConcatBackward(c), _) => view::concat_backward(c, v),
        (Call::PoolForward(c), _) => pool::forward(c, v),
        (Call::PoolBackward(c), _) => pool::backward(c, v),
        (Call::GlobalPoolForward(c), _) => pool::global_forward(c, v),
        (Call::GlobalPoolBackward(c), _) => pool::global_backward(c, v),
        (Call::SoftmaxForward(c), _) => loss::softmax_forward(c, v),
        (Call::SoftmaxBackward(c), _) => loss::softmax_backward(c, v),
        (Call::CrossEntropy(c), _) => loss::run(c, v, scratch),
        (Call::ExternalGradient(c), _) => view::external(c, v),
        (Call::ConvForward(_) | Call::ConvBackwardData(_) | Call::ConvBackwardWeight(_), None) => {
            unreachable!("a convolution is prepared as one")
        }
    }
}
