//! The device interface: storage, copies and kernels. The rest of the engine uses devices only
//! through it.
//!
//! A `Device` implementation needs storage for the five [`Space`]s, a kernel for each [`Call`], and
//! the work around a program: optimizer step, mixing, bank views, image batches, and recording. All
//! methods take `&self`, because a device is a handle.

pub(crate) mod bank_view;
pub(crate) mod buffer;
pub(crate) mod call;
pub(crate) mod mix;
mod schedule;
pub(crate) mod sgd;

use std::fmt;
use std::time::Duration;

use crate::error::Error;
use crate::images::{ImageSample, ImageSet};
use bank_view::BankViewSet;
use buffer::{Element, Region, Space};
use call::Call;
use mix::{MixOutput, MixSet};
use sgd::SgdGroups;

pub use schedule::{Schedule, Step};

/// Callback for profiled runs. It receives the index of each step and the time it took.
pub type Observer<'a> = &'a mut dyn FnMut(usize, Duration);

/// Storages of a device, one per [`Space`], in the order of [`Space::ALL`].
pub type Storages<D> = [<D as Device>::Buffer; 5];

/// A device that stores tensors and runs kernel calls. Clones are handles to the same device.
pub trait Device: Clone + fmt::Debug + Sized {
    /// One storage in device memory.
    type Buffer: fmt::Debug;
    /// Result of preparing a call: a chosen algorithm, a compiled kernel, or a tuned plan.
    type Kernel: fmt::Debug;
    /// Result of preparing sets of templates for mixing.
    type Mixer: fmt::Debug;
    /// Result of preparing bank views.
    type Viewer: fmt::Debug;
    /// Weights of a program, packed in the order that its kernels read.
    type Packed: fmt::Debug;
    /// Result of preparing the parameter groups of an optimizer.
    type Updater: fmt::Debug;
    /// Images kept on the device as bytes.
    type Images: fmt::Debug;
    /// Recorded work that can be replayed; see [`Device::record`].
    type Recording: fmt::Debug;

    /// Width of an element in bytes.
    fn element_bytes(&self, element: Element) -> usize;

    /// Allocates a storage filled with zeros. `size` is in bytes for the arena and the input/output
    /// storage, and in elements for the others. The first `weights` elements are weights, which a
    /// device may store in lower precision.
    fn allocate(&self, space: Space, size: usize, weights: usize) -> Result<Self::Buffer, Error>;

    /// Size that was passed to [`Device::allocate`].
    fn size(&self, buffer: &Self::Buffer) -> usize;

    /// Sets all values of a storage to zero.
    fn clear(&self, buffer: &mut Self::Buffer);

    /// Copies floats to the device and rounds them to the element's precision.
    fn write(&self, buffer: &mut Self::Buffer, region: Region, values: &[f32]);

    /// Copies integers to the device.
    fn write_indices(&self, buffer: &mut Self::Buffer, region: Region, values: &[u32]);

    /// Copies floats from the device.
    fn read(&self, buffer: &Self::Buffer, region: Region, values: &mut [f32]);

    /// Chooses how to run a call. Returns the prepared kernel and the bytes of scratch memory that
    /// it needs.
    fn prepare(&self, call: &Call) -> Result<(Self::Kernel, usize), Error>;

    /// Packs the weights that the forward pass of a program reads.
    fn pack(
        &self,
        schedule: &Schedule<Self::Kernel>,
        storages: &mut Storages<Self>,
    ) -> Result<Self::Packed, Error>;

    /// Bytes of packed weights.
    fn packed_bytes(&self, packed: &Self::Packed) -> usize;

    /// Runs a program. The storages are large enough for it. With `packed`, convolutions read these
    /// weights. With `observer`, the device waits after each step and reports its time.
    fn run(
        &self,
        schedule: &Schedule<Self::Kernel>,
        storages: &mut Storages<Self>,
        packed: Option<&Self::Packed>,
        observer: Option<Observer<'_>>,
    );

    /// Prepares the parameter groups of an optimizer. `parameters` lists all trainable tensors of
    /// the layout.
    fn prepare_sgd(
        &self,
        groups: &SgdGroups,
        parameters: &[Region],
    ) -> Result<Self::Updater, Error>;

    /// Runs one optimizer step over flat storage. `lrs` holds one learning rate per group.
    fn sgd(
        &self,
        updater: &Self::Updater,
        lrs: &Self::Buffer,
        momentum: &mut Self::Buffer,
        storages: &mut Storages<Self>,
    );

    /// Chooses how to mix sets. Returns the prepared sets and the bytes of arena that they need as
    /// scratch memory.
    fn prepare_mix(&self, sets: &[MixSet]) -> Result<(Self::Mixer, usize), Error>;

    /// Computes weight tensors from templates and coefficients; see [`crate::Mix`]. The arena is
    /// scratch memory.
    fn mix(
        &self,
        sets: &[MixSet],
        mixer: &Self::Mixer,
        readers: MixOutput,
        storages: &mut Storages<Self>,
    );

    /// Computes gradients of templates and coefficients from gradients of the weight tensors.
    fn mix_backward(&self, sets: &[MixSet], mixer: &Self::Mixer, storages: &mut Storages<Self>);

    /// Prepares bank views.
    fn prepare_views(&self, sets: &[BankViewSet]) -> Result<Self::Viewer, Error>;

    /// Computes tensors from banks; see [`crate::BankViews`].
    fn apply_views(&self, viewer: &Self::Viewer, storages: &mut Storages<Self>);

    /// Computes gradients of banks from gradients of the tensors.
    fn apply_views_backward(&self, viewer: &Self::Viewer, storages: &mut Storages<Self>);

    /// Adds the values of each region to `sums`, in f32. The regions follow one another in `sums`.
    fn accumulate(&self, storages: &Storages<Self>, regions: &[Region], sums: &mut Self::Buffer);

    /// Loads a data set from which batches of up to `batch` images are drawn. A row of the batch
    /// holds `abreast` images, whose channels follow one another within each pixel.
    fn load_images(
        &self,
        set: &ImageSet,
        batch: usize,
        abreast: usize,
    ) -> Result<Self::Images, Error>;

    /// Sets the images of the next [`Device::draw_batch`] and their augmentation. Recordings do not
    /// include this call.
    fn set_samples(&self, images: &mut Self::Images, draws: &[ImageSample]);

    /// Writes the batch set by [`Device::set_samples`] and the class of every image. Unused rows
    /// are filled with zeros and class 0.
    fn draw_batch(
        &self,
        images: &Self::Images,
        storages: &mut Storages<Self>,
        to: Region,
        classes: Region,
    );

    /// Records the work that `body` submits to the device, so that [`Device::replay`] can submit it
    /// again in one call. Recording executes nothing, so values that `body` reads are meaningless.
    /// Returns `None`, without calling `body`, if a recording has no benefit on this device. Copies
    /// between host and device and [`Device::set_samples`] are not recorded.
    fn record(
        &self,
        body: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Option<Self::Recording>, Error>;

    /// Runs recorded work again. The storages it was recorded with must still exist.
    fn replay(&self, recording: &Self::Recording) -> Result<(), Error>;

    /// Waits until all submitted work is done. Returns the first failure since the last report.
    fn finish(&self) -> Result<(), Error>;
}
