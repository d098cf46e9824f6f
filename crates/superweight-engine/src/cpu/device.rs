//! Implementation of [`Device`] for the CPU: prepares calls and dispatches them to kernels.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::bank::{mix, views};
use super::buffer::{CpuBuffer, Storages, Views};
use super::ops::{
    activation, add, batch_norm, channel_scale, concat, external, linear, loss, pool, softmax,
};
use super::{conv, images, sgd, sums};
use crate::device::bank_view::BankViewSet;
use crate::device::buffer::{Element, Region, Space};
use crate::device::call::Call;
use crate::device::mix::{MixOutput, MixSet};
use crate::device::sgd::SgdGroups;
use crate::device::{Device, Observer, Schedule, Step};
use crate::error::Error;
use crate::images::{ImageSample, ImageSet};

/// Largest number of threads. It exceeds any machine's cores; a typing error with more threads
/// could take the machine down.
pub const MAX_THREADS: usize = 1024;

/// The CPU as a device, with its own thread pool.
#[derive(Clone)]
pub struct CpuDevice {
    pub(super) pool: Arc<rayon::ThreadPool>,
    convolutions: conv::Algorithm,
}

impl CpuDevice {
    /// Creates a device with `threads` threads, at most [`MAX_THREADS`]. With 0 it uses one thread
    /// per core.
    pub fn new(threads: usize) -> Result<Self, Error> {
        if threads > MAX_THREADS {
            return Err(Error::Device {
                reason: format!("{threads} threads requested; use 0 to {MAX_THREADS}"),
            });
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|e| Error::Device { reason: e.to_string() })?;
        Ok(Self { pool: Arc::new(pool), convolutions: conv::Algorithm::Fastest })
    }

    /// The same device with another convolution algorithm, for tests that need exact rather than
    /// fast convolutions.
    pub fn with_conv_algorithm(self, convolutions: conv::Algorithm) -> Self {
        Self { convolutions, ..self }
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }
}

impl fmt::Debug for CpuDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuDevice({} threads)", self.threads())
    }
}

/// Result of preparing a call: the algorithm of a convolution, or nothing for other calls.
#[derive(Debug)]
pub enum Kernel {
    #[allow(missing_docs)]
    Conv(Box<conv::Conv>),
    #[allow(missing_docs)]
    Plain,
}

/// Packed weights of each step; empty for steps that are not forward convolutions.
#[derive(Debug)]
pub struct Packed(Vec<Vec<f32>>);

impl Device for CpuDevice {
    type Buffer = CpuBuffer;
    type Kernel = Kernel;
    type Mixer = Vec<mix::Mixer>;
    type Viewer = views::Viewer;
    type Packed = Packed;
    type Updater = SgdGroups;
    type Images = images::CpuImages;
    type Recording = Infallible;

    fn element_bytes(&self, _element: Element) -> usize {
        4
    }

    fn allocate(&self, space: Space, size: usize, _: usize) -> Result<CpuBuffer, Error> {
        let bytes_per_unit = match space {
            Space::Arena | Space::Io => 1,
            Space::Parameters | Space::Gradients | Space::State => 4,
        };
        CpuBuffer::new(size, bytes_per_unit)
    }

    fn size(&self, buffer: &CpuBuffer) -> usize {
        buffer.size()
    }

    fn clear(&self, buffer: &mut CpuBuffer) {
        self.pool.install(|| buffer.floats_mut().fill(0.0));
    }

    fn write(&self, buffer: &mut CpuBuffer, region: Region, values: &[f32]) {
        buffer.words_mut(region).iter_mut().zip(values).for_each(|(to, from)| *to = from.to_bits());
    }

    fn write_indices(&self, buffer: &mut CpuBuffer, region: Region, values: &[u32]) {
        buffer.words_mut(region).copy_from_slice(values);
    }

    fn read(&self, buffer: &CpuBuffer, region: Region, values: &mut [f32]) {
        values
            .iter_mut()
            .zip(buffer.words(region))
            .for_each(|(to, from)| *to = f32::from_bits(*from));
    }

    fn prepare(&self, call: &Call) -> Result<(Kernel, usize), Error> {
        let conv = |geometry| Box::new(conv::Conv::with_algorithm(geometry, self.convolutions));
        let (kernel, floats) = match call {
            Call::ConvForward(call) => {
                let conv = conv(call.geometry);
                let scratch = conv.forward_scratch();
                (Kernel::Conv(conv), scratch)
            }
            Call::ConvBackwardData(call) => {
                let conv = conv(call.geometry);
                let scratch = conv.backward_data_scratch();
                (Kernel::Conv(conv), scratch)
            }
            Call::ConvBackwardWeight(call) => {
                let conv = conv(call.geometry);
                let scratch = conv.backward_weight_scratch();
                (Kernel::Conv(conv), scratch)
            }
            Call::NormStatistics(call) => (Kernel::Plain, batch_norm::statistics_scratch(call)),
            Call::NormApply(call) => (Kernel::Plain, batch_norm::apply_scratch(call)),
            Call::NormBackward(call) => (Kernel::Plain, batch_norm::backward_scratch(call)),
            Call::ScaleForward(call) => (Kernel::Plain, channel_scale::forward_scratch(call)),
            Call::ScaleBackward(call) => (Kernel::Plain, channel_scale::backward_scratch(call)),
            Call::CrossEntropy(call) => (Kernel::Plain, loss::scratch(call)),
            _ => (Kernel::Plain, 0),
        };
        Ok((kernel, floats * 4))
    }

    fn pack(&self, schedule: &Schedule<Kernel>, storages: &mut Storages) -> Result<Packed, Error> {
        let views = Views::new(schedule.regions(), storages);
        let pack = |step: &Step<Kernel>| match (&step.call, &step.kernel) {
            (Call::ConvForward(call), Kernel::Conv(conv)) => {
                let mut packed = vec![0.0; conv.packed_len()];
                conv.pack_forward(views.read(call.w), &mut packed, scratch_of(step, &views));
                packed
            }
            _ => Vec::new(),
        };
        Ok(Packed(self.pool.install(|| schedule.steps().iter().map(pack).collect())))
    }

    fn packed_bytes(&self, packed: &Packed) -> usize {
        packed.0.iter().map(|weight| 4 * weight.len()).sum()
    }

    fn run(
        &self,
        schedule: &Schedule<Kernel>,
        storages: &mut Storages,
        packed: Option<&Packed>,
        observer: Option<Observer<'_>>,
    ) {
        let views = Views::new(schedule.regions(), storages);
        let packed_of = |index: usize| packed.map_or(&[][..], |packed| &packed.0[index]);
        let steps = || schedule.steps().iter().enumerate();
        match observer {
            None => self
                .pool
                .install(|| steps().for_each(|(i, step)| execute(step, packed_of(i), &views))),
            Some(observe) => {
                for (index, step) in steps() {
                    let start = Instant::now();
                    self.pool.install(|| execute(step, packed_of(index), &views));
                    observe(index, start.elapsed());
                }
            }
        }
    }

    fn prepare_sgd(&self, groups: &SgdGroups, _: &[Region]) -> Result<SgdGroups, Error> {
        Ok(groups.clone())
    }

    fn sgd(
        &self,
        groups: &SgdGroups,
        lrs: &CpuBuffer,
        momentum: &mut CpuBuffer,
        storages: &mut Storages,
    ) {
        let [_, _, parameters, gradients, _] = storages;
        let (parameters, gradients) = (parameters.floats_mut(), gradients.floats());
        self.pool.install(|| {
            sgd::step(groups, lrs.floats(), parameters, gradients, momentum.floats_mut())
        });
    }

    fn prepare_mix(&self, sets: &[MixSet]) -> Result<(Vec<mix::Mixer>, usize), Error> {
        let (mixers, floats): (Vec<_>, Vec<usize>) = sets.iter().map(mix::prepare).unzip();
        Ok((mixers, 4 * floats.into_iter().max().unwrap_or(0)))
    }

    fn mix(
        &self,
        sets: &[MixSet],
        mixers: &Vec<mix::Mixer>,
        _readers: MixOutput,
        storages: &mut Storages,
    ) {
        self.pool.install(|| mix::mix(sets, mixers, storages));
    }

    fn mix_backward(&self, sets: &[MixSet], mixers: &Vec<mix::Mixer>, storages: &mut Storages) {
        self.pool.install(|| mix::mix_backward(sets, mixers, storages));
    }

    fn prepare_views(&self, sets: &[BankViewSet]) -> Result<views::Viewer, Error> {
        Ok(views::Viewer::new(sets))
    }

    fn apply_views(&self, viewer: &views::Viewer, storages: &mut Storages) {
        self.pool.install(|| viewer.apply(storages));
    }

    fn apply_views_backward(&self, viewer: &views::Viewer, storages: &mut Storages) {
        self.pool.install(|| viewer.backward(storages));
    }

    fn accumulate(&self, storages: &Storages, regions: &[Region], sums: &mut CpuBuffer) {
        self.pool.install(|| sums::accumulate(storages, regions, sums.floats_mut()));
    }

    fn load_images(
        &self,
        set: &ImageSet,
        batch: usize,
        abreast: usize,
    ) -> Result<images::CpuImages, Error> {
        Ok(images::CpuImages::new(set, batch, abreast))
    }

    fn set_samples(&self, images: &mut images::CpuImages, draws: &[ImageSample]) {
        images.set_samples(draws);
    }

    fn draw_batch(
        &self,
        images: &images::CpuImages,
        storages: &mut Storages,
        to: Region,
        classes: Region,
    ) {
        let io = &mut storages[Space::Io as usize];
        images.classes(io.words_mut(classes));
        self.pool.install(|| images.pixels(io.floats_of_mut(to)));
    }

    /// The CPU has no launch overhead to save, so it does not record.
    fn record(
        &self,
        _: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Option<Infallible>, Error> {
        Ok(None)
    }

    fn replay(&self, recording: &Infallible) -> Result<(), Error> {
        match *recording {}
    }

    fn finish(&self) -> Result<(), Error> {
        Ok(())
    }
}

fn scratch_of<'a>(step: &Step<Kernel>, v: &'a Views<'_>) -> &'a mut [f32] {
    step.scratch.map_or(&mut [][..], |scratch| v.write(scratch))
}

/// Runs one step. `packed` is its packed weight, or empty.
fn execute(step: &Step<Kernel>, packed: &[f32], v: &Views<'_>) {
    let scratch = scratch_of(step, v);
    match (&step.call, &step.kernel) {
        (Call::ConvForward(c), Kernel::Conv(k)) => {
            let (x, y, write) = (v.read(c.x), v.write(c.y), c.write);
            match packed.is_empty() {
                true => k.forward(x, v.read(c.w), y, write, scratch),
                false => k.forward_packed(x, packed, y, write, scratch),
            }
            if let Some(epilogue) = &c.epilogue {
                linear::finish(epilogue, v, y);
            }
        }
        (Call::ConvBackwardData(c), Kernel::Conv(k)) => {
            k.backward_data(v.read(c.dy), v.read(c.w), v.write(c.dx), c.write, scratch)
        }
        (Call::ConvBackwardWeight(c), Kernel::Conv(k)) => {
            k.backward_weight(v.read(c.x), v.read(c.dy), v.write(c.dw), c.write, scratch)
        }
        (Call::BiasForward(c), _) => linear::bias_forward(c, v),
        (Call::BiasBackward(c), _) => linear::bias_backward(c, v),
        (Call::NormStatistics(c), _) => batch_norm::statistics(c, v, scratch),
        (Call::NormApply(c), _) => batch_norm::apply(c, v, scratch),
        (Call::NormBackward(c), _) => batch_norm::backward(c, v, scratch),
        (Call::ScaleForward(c), _) => channel_scale::forward(c, v, scratch),
        (Call::ScaleBackward(c), _) => channel_scale::backward(c, v, scratch),
        (Call::ActivationForward(c), _) => activation::forward(c, v),
        (Call::ActivationBackward(c), _) => activation::backward(c, v),
        (Call::Sum(c), _) => add::sum(c, v),
        (Call::Copy(c), _) => add::copy(c, v),
        (Call::Fill(c), _) => v.write(c.y).fill(0.0),
        (Call::ConcatForward(c), _) => concat::forward(c, v),
        (Call::ConcatBackward(c), _) => concat::backward(c, v),
        (Call::PoolForward(c), _) => pool::forward(c, v),
        (Call::PoolBackward(c), _) => pool::backward(c, v),
        (Call::GlobalPoolForward(c), _) => pool::global_forward(c, v),
        (Call::GlobalPoolBackward(c), _) => pool::global_backward(c, v),
        (Call::SoftmaxForward(c), _) => softmax::forward(c, v),
        (Call::SoftmaxBackward(c), _) => softmax::backward(c, v),
        (Call::CrossEntropy(c), _) => loss::run(c, v, scratch),
        (Call::ExternalGradient(c), _) => external::run(c, v),
        (
            Call::ConvForward(_) | Call::ConvBackwardData(_) | Call::ConvBackwardWeight(_),
            Kernel::Plain,
        ) => {
            unreachable!("a convolution call has a convolution kernel")
        }
    }
}
