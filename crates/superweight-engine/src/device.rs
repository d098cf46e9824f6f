//! What a device supplies: storages, copies, kernels. Graphs, programs and memory plans know nothing else of it.

use std::fmt;
use std::time::Duration;

use crate::error::Error;
use crate::images::{ImageDraw, ImageSet};
use crate::layout::{CONTROL, Control, Layout};
use crate::mix::{Mix, MixReaders, MixSet};
use crate::ops::Call;
use crate::optimizer::SgdGroups;
use crate::program::{Element, Program, Region, Space};
use crate::views::{ViewSet, Views};

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
        program: &Program<Self>,
        storages: &mut Storages<Self>,
    ) -> Result<Self::Packed, Error>;

    /// Bytes of packed weights.
    fn packed_bytes(&self, packed: &Self::Packed) -> usize;

    /// Runs a program over storages that are large enough for it.
    fn run(
        &self,
        program: &Program<Self>,
        storages: &mut Storages<Self>,
        packed: Option<&Self::Packed>,
        observer: Option<Observer<'_>>,
    );

    /// Takes in an optimizer's groups.
    fn prepare_sgd(&self, groups: &SgdGroups, layout: &Layout) -> Result<Self::Updater, Error>;

    /// One optimizer step over flat storage, with one learning rate per group read from `rates`.
    fn sgd(
        &self,
        updater: &Self::Updater,
        rates: &Self::Buffer,
        momentum: &mut Self::Buffer,
        storages: &mut Storages<Self>,
    );

    /// Chooses how sets will be mixed, and how many bytes of scratch memory that takes.
    fn prepare_mix(&self, sets: &[MixSet]) -> Result<(Self::Mixer, usize), Error>;

    /// Tensors from blocks and coefficients; see [`Mix`]. The arena is scratch.
    fn mix(&self, mix: &Mix<Self>, readers: MixReaders, storages: &mut Storages<Self>);

    /// Gradients of blocks and coefficients from those of tensors.
    fn mix_backward(&self, mix: &Mix<Self>, storages: &mut Storages<Self>);

    /// Takes in views of banks.
    fn prepare_views(&self, sets: &[ViewSet]) -> Result<Self::Viewer, Error>;

    /// Tensors from banks; see [`Views`].
    fn view(&self, views: &Views<Self>, storages: &mut Storages<Self>);

    /// Gradients of banks from those of tensors.
    fn view_backward(&self, views: &Views<Self>, storages: &mut Storages<Self>);

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
    fn set_draws(&self, images: &mut Self::Images, draws: &[ImageDraw]);

    /// Writes the batch last said, in the order said, and the class of every image. What is beyond is zeros of class 0.
    fn draw(
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

/// What a loss reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metrics {
    /// Mean over the rows that count, without the loss's weight. NaN if a class is out of range.
    pub loss: f32,
    /// Rows whose target class has the largest logit (among equals, the first class).
    pub top1: f32,
    /// Rows whose target class is among the five largest.
    pub top5: f32,
    /// Rows that count.
    pub rows: f32,
}

/// Weights of one program, packed. Made by [`Memory::freeze`].
#[derive(Debug)]
pub struct Frozen<D: Device> {
    packed: D::Packed,
    program: u64,
}

impl<D: Device> Frozen<D> {
    /// Bytes of the packed weights.
    pub fn bytes(&self, device: &D) -> usize {
        device.packed_bytes(&self.packed)
    }
}

/// Everything that programs read and write, on one device.
#[derive(Debug)]
pub struct Memory<D: Device> {
    device: D,
    layout: Layout,
    pub(crate) storages: Storages<D>,
}

impl<D: Device> Memory<D> {
    /// Storages for a layout and an arena of this many bytes: the largest plan among the programs to be run.
    pub fn new(device: &D, layout: Layout, arena_bytes: usize) -> Result<Self, Error> {
        let (numbers, weights) = (layout.parameter_numbers, layout.weight_numbers);
        let storages = [
            device.allocate(Space::Arena, arena_bytes, 0)?,
            device.allocate(Space::Io, layout.io_bytes, 0)?,
            device.allocate(Space::Parameters, numbers, weights)?,
            device.allocate(Space::Gradients, numbers, weights)?,
            device.allocate(Space::State, layout.state_numbers, 0)?,
        ];
        let mut memory = Self { device: device.clone(), layout, storages };
        memory.set_control(Control::ValidRows, u32::MAX);
        memory.set_control(Control::BatchOfPass, 1);
        Ok(memory)
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Where everything lies.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Runs a program once.
    pub fn run(&mut self, program: &Program<D>) -> Result<(), Error> {
        self.check(program)?;
        self.device.run(program, &mut self.storages, None, None);
        Ok(())
    }

    /// Takes the weights of a program as they are now and packs them for many runs. It pays at small batches, where
    /// packing is a good part of a run: WRN-28-4 at batch 1 on two AVX-512 threads, 16.0 → 12.0 ms (`results/cpu-step.md`).
    pub fn freeze(&mut self, program: &Program<D>) -> Result<Frozen<D>, Error> {
        self.check(program)?;
        let packed = self.device.pack(program, &mut self.storages)?;
        Ok(Frozen { packed, program: program.id() })
    }

    /// Runs a program with weights frozen for it: the same bits as [`Memory::run`] gave then. Later changes of weights
    /// are not seen; those of biases and batch norms are.
    pub fn run_frozen(&mut self, program: &Program<D>, frozen: &Frozen<D>) -> Result<(), Error> {
        self.check(program)?;
        if frozen.program != program.id() {
            return Err(Error::OtherProgram { graph: program.graph().name().to_owned() });
        }
        self.device.run(program, &mut self.storages, Some(&frozen.packed), None);
        Ok(())
    }

    /// Runs a program once and reports the time of each call. Slower: the device waits after each.
    pub fn profile(&mut self, program: &Program<D>, observer: Observer<'_>) -> Result<(), Error> {
        self.check(program)?;
        self.device.run(program, &mut self.storages, None, Some(observer));
        Ok(())
    }

    fn check(&self, program: &Program<D>) -> Result<(), Error> {
        self.check_arena(program.plan().arena_bytes)?;
        match program.layout_fingerprint() == self.layout.fingerprint {
            true => Ok(()),
            false => Err(Error::OtherLayout { graph: program.graph().name().to_owned() }),
        }
    }

    pub(crate) fn check_arena(&self, need: usize) -> Result<(), Error> {
        let have = self.device.size(&self.storages[Space::Arena as usize]);
        match have < need {
            true => Err(Error::MemoryTooSmall { space: Space::Arena.name(), need, have }),
            false => Ok(()),
        }
    }

    /// Fills a batch of images and its classes from images on the device; see [`Device::set_draws`].
    pub fn draw(&mut self, images: &D::Images, to: &str, classes: &str) -> Result<(), Error> {
        let (to, classes) = (self.layout.io(to)?, self.layout.io(classes)?);
        self.device.draw(images, &mut self.storages, to, classes);
        Ok(())
    }

    /// Waits for the device; see [`Device::finish`].
    pub fn finish(&self) -> Result<(), Error> {
        self.device.finish()
    }

    /// Sets a control word.
    pub fn set_control(&mut self, word: Control, value: u32) {
        if let Ok(region) = self.layout.io(CONTROL) {
            let region = Region { offset: region.offset + 4 * word as usize, len: 1, ..region };
            self.device.write_indices(&mut self.storages[Space::Io as usize], region, &[value]);
        }
    }

    /// Sets the gradients of all tensors to zero. A backward pass writes those of the tensors that its graph reads and leaves
    /// others as they are, so who runs some of several graphs begins with this.
    pub fn clear_gradients(&mut self) {
        self.device.clear(&mut self.storages[Space::Gradients as usize]);
    }

    /// Sets a trainable tensor.
    pub fn set_parameter(&mut self, name: &str, values: &[f32]) -> Result<(), Error> {
        self.write(name, self.layout.parameter(name)?, values)
    }

    /// Sets the gradient of a trainable tensor, as a backward pass would.
    pub fn set_gradient(&mut self, name: &str, values: &[f32]) -> Result<(), Error> {
        self.write(name, self.layout.gradient(name)?, values)
    }

    /// Sets a running statistic.
    pub fn set_statistic(&mut self, name: &str, values: &[f32]) -> Result<(), Error> {
        self.write(name, self.layout.statistic(name)?, values)
    }

    /// Sets an input, a target of probabilities or an external gradient; fewer numbers than it holds fill its start.
    pub fn set_input(&mut self, name: &str, values: &[f32]) -> Result<(), Error> {
        let region = self.layout.io(name)?;
        let expected = region.len;
        if values.len() > expected || region.element == Element::Index {
            return Err(Error::WrongLength { name: name.to_owned(), expected, got: values.len() });
        }
        self.write(name, Region { len: values.len(), ..region }, values)
    }

    /// Sets a target of classes; fewer classes than it holds fill its start.
    pub fn set_classes(&mut self, name: &str, classes: &[u32]) -> Result<(), Error> {
        let region = self.layout.io(name)?;
        let expected = region.len;
        if classes.len() > expected || region.element != Element::Index {
            return Err(Error::WrongLength { name: name.to_owned(), expected, got: classes.len() });
        }
        let region = Region { len: classes.len(), ..region };
        self.device.write_indices(&mut self.storages[Space::Io as usize], region, classes);
        Ok(())
    }

    /// A trainable tensor.
    pub fn parameter(&self, name: &str) -> Result<Vec<f32>, Error> {
        Ok(self.read(self.layout.parameter(name)?))
    }

    /// Gradient of a trainable tensor.
    pub fn gradient(&self, name: &str) -> Result<Vec<f32>, Error> {
        Ok(self.read(self.layout.gradient(name)?))
    }

    /// A running statistic.
    pub fn statistic(&self, name: &str) -> Result<Vec<f32>, Error> {
        Ok(self.read(self.layout.statistic(name)?))
    }

    /// An output (or input, or input gradient), all rows of the largest batch laid out.
    pub fn output(&self, name: &str) -> Result<Vec<f32>, Error> {
        Ok(self.read(self.layout.io(name)?))
    }

    /// What a loss reported.
    pub fn metrics(&self, loss: &str) -> Result<Metrics, Error> {
        let values = self.read(self.layout.io(loss)?);
        match values[..] {
            [loss, top1, top5, rows] => Ok(Metrics { loss, top1, top5, rows }),
            _ => Err(Error::UnknownTensor { space: "loss", name: loss.to_owned() }),
        }
    }

    /// The numbers of a region.
    pub fn read(&self, region: Region) -> Vec<f32> {
        let mut values = vec![0.0; region.len];
        self.device.read(&self.storages[region.space as usize], region, &mut values);
        values
    }

    fn write(&mut self, name: &str, region: Region, values: &[f32]) -> Result<(), Error> {
        let (expected, got) = (region.len, values.len());
        if expected != got {
            return Err(Error::WrongLength { name: name.to_owned(), expected, got });
        }
        self.device.write(&mut self.storages[region.space as usize], region, values);
        Ok(())
    }
}
