//! The memory of one device: everything that programs read and write.

use crate::device::buffer::{Control, Element, Region, Space};
use crate::device::{Device, Observer, Storages};
use crate::error::Error;
use crate::program::{CONTROL, Layout, Program};

/// Results of a loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metrics {
    /// Mean loss over the valid rows, without the loss's weight. NaN if a class is out of range.
    pub loss: f32,
    /// Number of valid rows whose target class has the largest logit. Among equal logits the first
    /// class counts.
    pub top1: f32,
    /// Number of valid rows whose target class is among the five largest logits.
    pub top5: f32,
    /// Number of valid rows.
    pub rows: f32,
}

/// Packed weights of one program, made by [`Memory::freeze`].
#[derive(Debug)]
pub struct Frozen<D: Device> {
    packed: D::Packed,
    program: u64,
}

impl<D: Device> Frozen<D> {
    /// Size of the packed weights in bytes.
    pub fn bytes(&self, device: &D) -> usize {
        device.packed_bytes(&self.packed)
    }
}

/// The memory of one device: everything that programs read and write.
#[derive(Debug)]
pub struct Memory<D: Device> {
    device: D,
    layout: Layout,
    pub(crate) storages: Storages<D>,
}

impl<D: Device> Memory<D> {
    /// Allocates the storages of a layout and an arena of `arena_bytes`, the largest plan among the
    /// programs to run.
    pub fn new(device: &D, layout: Layout, arena_bytes: usize) -> Result<Self, Error> {
        let (parameters, weights) = (layout.parameter_len, layout.weight_len);
        let storages = [
            device.allocate(Space::Arena, arena_bytes, 0)?,
            device.allocate(Space::Io, layout.io_bytes, 0)?,
            device.allocate(Space::Parameters, parameters, weights)?,
            device.allocate(Space::Gradients, parameters, weights)?,
            device.allocate(Space::State, layout.statistic_len, 0)?,
        ];
        let mut memory = Self { device: device.clone(), layout, storages };
        memory.set_control(Control::ValidRows, u32::MAX);
        memory.set_control(Control::BatchOfPass, 1);
        Ok(memory)
    }

    /// Device that holds the memory.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Layout of the tensors.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Runs a program once.
    pub fn run(&mut self, program: &Program<D>) -> Result<(), Error> {
        self.check(program)?;
        self.device.run(program.schedule(), &mut self.storages, None, None);
        Ok(())
    }

    /// Packs the current weights of a program for many runs. This helps at small batches, where
    /// packing takes a good part of each run: WRN-28-4 at batch 1 on two AVX-512 threads, 16.0 →
    /// 12.0 ms (`results/cpu-step.md`).
    pub fn freeze(&mut self, program: &Program<D>) -> Result<Frozen<D>, Error> {
        self.check(program)?;
        let packed = self.device.pack(program.schedule(), &mut self.storages)?;
        Ok(Frozen { packed, program: program.id() })
    }

    /// Runs a program with frozen weights. The result has the same bits as [`Memory::run`] at the
    /// time of freezing. Later changes of weights have no effect; changes of biases and batch norms
    /// do.
    pub fn run_frozen(&mut self, program: &Program<D>, frozen: &Frozen<D>) -> Result<(), Error> {
        self.check(program)?;
        if frozen.program != program.id() {
            return Err(Error::ProgramMismatch { graph: program.graph().name().to_owned() });
        }
        self.device.run(program.schedule(), &mut self.storages, Some(&frozen.packed), None);
        Ok(())
    }

    /// Runs a program once and reports the time of each call. This is slower, because the device
    /// waits after each call.
    pub fn profile(&mut self, program: &Program<D>, observer: Observer<'_>) -> Result<(), Error> {
        self.check(program)?;
        self.device.run(program.schedule(), &mut self.storages, None, Some(observer));
        Ok(())
    }

    fn check(&self, program: &Program<D>) -> Result<(), Error> {
        self.check_arena(program.plan().arena_bytes)?;
        match program.layout_fingerprint() == self.layout.fingerprint {
            true => Ok(()),
            false => Err(Error::LayoutMismatch { graph: program.graph().name().to_owned() }),
        }
    }

    pub(crate) fn check_arena(&self, need: usize) -> Result<(), Error> {
        let have = self.device.size(&self.storages[Space::Arena as usize]);
        match have < need {
            true => Err(Error::MemoryTooSmall { space: Space::Arena.name(), need, have }),
            false => Ok(()),
        }
    }

    /// Writes a batch of augmented images to input `to` and their classes to `classes`.
    /// [`Device::set_samples`] selects the images.
    pub fn draw_batch(&mut self, images: &D::Images, to: &str, classes: &str) -> Result<(), Error> {
        let (to, classes) = (self.layout.io(to)?, self.layout.io(classes)?);
        self.device.draw_batch(images, &mut self.storages, to, classes);
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

    /// Sets the gradients of all trainable tensors to zero. A backward pass writes only the
    /// gradients of its own graph. Call this first if a step runs only some of several graphs.
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

    /// Sets an input, a target of probabilities, or an external gradient. Fewer values than the
    /// tensor holds fill its start.
    pub fn set_input(&mut self, name: &str, values: &[f32]) -> Result<(), Error> {
        let region = self.layout.io(name)?;
        let expected = region.len;
        if values.len() > expected || region.element == Element::Index {
            return Err(Error::WrongLength { name: name.to_owned(), expected, got: values.len() });
        }
        self.write(name, Region { len: values.len(), ..region }, values)
    }

    /// Sets a target of classes. Fewer classes than the tensor holds fill its start.
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

    /// Reads a trainable tensor.
    pub fn parameter(&self, name: &str) -> Result<Vec<f32>, Error> {
        Ok(self.read(self.layout.parameter(name)?))
    }

    /// Reads the gradient of a trainable tensor.
    pub fn gradient(&self, name: &str) -> Result<Vec<f32>, Error> {
        Ok(self.read(self.layout.gradient(name)?))
    }

    /// Reads a running statistic.
    pub fn statistic(&self, name: &str) -> Result<Vec<f32>, Error> {
        Ok(self.read(self.layout.statistic(name)?))
    }

    /// Reads an output, input or input gradient: all rows of the largest batch in the layout.
    pub fn output(&self, name: &str) -> Result<Vec<f32>, Error> {
        Ok(self.read(self.layout.io(name)?))
    }

    /// Reads the results of a loss.
    pub fn metrics(&self, loss: &str) -> Result<Metrics, Error> {
        let values = self.read(self.layout.io(loss)?);
        match values[..] {
            [loss, top1, top5, rows] => Ok(Metrics { loss, top1, top5, rows }),
            _ => Err(Error::UnknownTensor { space: "loss", name: loss.to_owned() }),
        }
    }

    /// Reads the values of a region.
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
