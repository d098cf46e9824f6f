//! What a device supplies: storages, copies, kernels. Graphs, programs and memory plans know nothing else of it.

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

/// Called after each step of a profiled run with the step's index and the time it took.
pub type Observer<'a> = &'a mut dyn FnMut(usize, Duration);

/// The storages of a device, one per [`Space`].
pub type Storages<D> = [<D as Device>::Buffer; 5];

/// A device. Cloning one gives another handle to it.
pub trait Device: Clone + fmt::Debug + Sized {
    /// Memory of the device.
    type Buffer: fmt::Debug;
    /// What it prepares for a call: chosen algorithm, compiled kernel, tuned plan.
    type Kernel: fmt::Debug;
    /// What it prepares for sets of blocks to be mixed.
    type Mixer: fmt::Debug;
    /// What it prepares for views of banks.
    type Viewer: fmt::Debug;
    /// A program's weights as its kernels like them best.
    type Packed: fmt::Debug;
    /// What it prepares for an optimizer's groups.
    type Updater: fmt::Debug;
    /// Images that stay on the device, as bytes.
    type Images: fmt::Debug;
    /// Work that was noted down to be done again; see [`Device::record`].
    type Recording: fmt::Debug;

    /// Bytes of a number.
    fn element_bytes(&self, element: Element) -> usize;

    /// A storage of zeros. `size` is in bytes (arena, input/output) or numbers (the others), of which the first
    /// `weights` are numbers of weights.
    fn allocate(&self, space: Space, size: usize, weights: usize) -> Result<Self::Buffer, Error>;

    /// What [`Device::allocate`] was asked for.
    fn size(&self, buffer: &Self::Buffer) -> usize;

    /// Makes all numbers of a storage zero.
    fn clear(&self, buffer: &mut Self::Buffer);

    /// Copies numbers to the device, in its precision.
    fn write(&self, buffer: &mut Self::Buffer, region: Region, values: &[f32]);

    /// Copies integers to the device.
    fn write_indices(&self, buffer: &mut Self::Buffer, region: Region, values: &[u32]);

    /// Copies numbers from the device.
    fn read(&self, buffer: &Self::Buffer, region: Region, values: &mut [f32]);

    /// Chooses how a call will be run, and how many bytes of scratch memory that takes.
    fn prepare(&self, call: &Call) -> Result<(Self::Kernel, usize), Error>;

    /// Packs the weights that a program's forward pass reads.
    fn pack(
        &self,
        schedule: &Schedule<Self::Kernel>,
        storages: &mut Storages<Self>,
    ) -> Result<Self::Packed, Error>;

    /// Bytes of packed weights.
    fn packed_bytes(&self, packed: &Self::Packed) -> usize;

    /// Runs a program over storages that are large enough for it.
    fn run(
        &self,
        schedule: &Schedule<Self::Kernel>,
        storages: &mut Storages<Self>,
        packed: Option<&Self::Packed>,
        observer: Option<Observer<'_>>,
    );

    /// Takes in an optimizer's groups.
    fn prepare_sgd(
        &self,
        groups: &SgdGroups,
        parameters: &[Region],
    ) -> Result<Self::Updater, Error>;

    /// One optimizer step over flat storage, with one learning rate per group read from `lrs`.
    fn sgd(
        &self,
        updater: &Self::Updater,
        lrs: &Self::Buffer,
        momentum: &mut Self::Buffer,
        storages: &mut Storages<Self>,
    );

    /// Chooses how sets will be mixed, and how many bytes of scratch memory that takes.
    fn prepare_mix(&self, sets: &[MixSet]) -> Result<(Self::Mixer, usize), Error>;

    /// Tensors from blocks and coefficients; see [`crate::Mix`]. The arena is scratch.
    fn mix(
        &self,
        sets: &[MixSet],
        mixer: &Self::Mixer,
        readers: MixOutput,
        storages: &mut Storages<Self>,
    );

    /// Gradients of blocks and coefficients from those of tensors.
    fn mix_backward(&self, sets: &[MixSet], mixer: &Self::Mixer, storages: &mut Storages<Self>);

    /// Takes in views of banks.
    fn prepare_views(&self, sets: &[BankViewSet]) -> Result<Self::Viewer, Error>;

    /// Tensors from banks; see [`crate::Views`].
    fn apply_views(&self, viewer: &Self::Viewer, storages: &mut Storages<Self>);

    /// Gradients of banks from those of tensors.
    fn apply_views_backward(&self, viewer: &Self::Viewer, storages: &mut Storages<Self>);

    /// Adds the numbers of each region, one region after another, to `sums`, in 32 bits.
    fn accumulate(&self, storages: &Storages<Self>, regions: &[Region], sums: &mut Self::Buffer);

    /// Takes in images to draw batches of up to `batch` from, so many of which lie abreast in a row of the batch: channels of
    /// one beside channels of the next.
    fn load_images(
        &self,
        set: &ImageSet,
        batch: usize,
        abreast: usize,
    ) -> Result<Self::Images, Error>;

    /// Says which images the next [`Device::draw`] makes a batch of, and how they are placed. Not part of a recording.
    fn set_samples(&self, images: &mut Self::Images, draws: &[ImageSample]);

    /// Writes the batch last said, in the order said, and the class of every image. What is beyond is zeros of class 0.
    fn draw_batch(
        &self,
        images: &Self::Images,
        storages: &mut Storages<Self>,
        to: Region,
        classes: Region,
    );

    /// Notes down what `body` asks of the device, to be asked again at once by [`Device::replay`]. Nothing is done yet,
    /// and what `body` reads is of no use. None where nothing would be gained: then `body` is not called. Not
    /// noted are copies between host and device and what says so.
    fn record(
        &self,
        body: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Option<Self::Recording>, Error>;

    /// Does what was recorded, over the same storages, which must still be there.
    fn replay(&self, recording: &Self::Recording) -> Result<(), Error>;

    /// Waits until everything asked for has been done. The first failure since the last time is reported here, unless a
    /// call before could.
    fn finish(&self) -> Result<(), Error>;
}
