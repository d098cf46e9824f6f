//! Direct access to the flat storages of a CPU memory as slices. Callers can compose weights before
//! a step and read dL/dW after it without copies.

use crate::device::buffer::Space;
use crate::memory::Memory;

use super::device::CpuDevice;

impl Memory<CpuDevice> {
    /// All parameters, at the offsets of [`crate::Layout`].
    pub fn parameters(&self) -> &[f32] {
        self.storages[Space::Parameters as usize].floats()
    }

    /// All gradients, at the offsets of their parameters.
    pub fn gradients(&self) -> &[f32] {
        self.storages[Space::Gradients as usize].floats()
    }

    /// All parameters and gradients, mutable.
    pub fn parameters_and_gradients(&mut self) -> (&mut [f32], &mut [f32]) {
        let [_, _, parameters, gradients, _] = &mut self.storages;
        (parameters.floats_mut(), gradients.floats_mut())
    }

    /// All running statistics.
    pub fn statistics(&self) -> &[f32] {
        self.storages[Space::State as usize].floats()
    }
}

impl CpuDevice {
    /// Runs `f` on the device's thread pool. Rayon's parallel iterators inside `f` use it.
    pub fn install<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        self.pool.install(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::LayoutBuilder;

    #[test]
    fn slices_match_the_layout() {
        let device = CpuDevice::new(1).unwrap();
        let mut builder = LayoutBuilder::new();
        builder.parameter("a", 3).unwrap().parameter("b", 5).unwrap();
        let mut memory = Memory::new(&device, builder.finish(&device), 0).unwrap();
        memory.set_parameter("b", &[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let start = memory.layout().parameter("b").unwrap().offset;
        assert_eq!(memory.parameters()[start..start + 5], [1.0, 2.0, 3.0, 4.0, 5.0]);
        memory.parameters_and_gradients().1[start] = 7.0;
        assert_eq!(memory.gradient("b").unwrap(), [7.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(memory.gradients().len(), memory.layout().parameter_len);
        assert_eq!(device.install(rayon::current_num_threads), 1);
    }
}
