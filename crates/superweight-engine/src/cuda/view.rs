//! A program's buffers as GPU addresses.

use std::sync::Arc;

use cudarc::driver::result;

use super::buffer::{Allocation, Base, Place, Storages};
use super::context::Context;
use super::gpu::Gpu;
use super::launch::Kernels;
use super::named::Named;
use crate::device::buffer::{BufferId, Region, Space, Write};
use crate::error::CudaError;

/// Copies of the weights of forward convolutions at the time of freezing. GPU weights need no
/// packing.
#[derive(Debug)]
pub struct Packed(pub(super) Vec<Option<Allocation>>);

/// Addresses of a program's buffers.
///
/// # Safety of launches
///
/// `Program::compile` checked that every buffer is inside its storage. `Memory::run` checked that
/// the storages belong to the program's layout. Kernels receive the sizes of their call. So every
/// address is valid for the length passed with it.
pub(super) struct View<'a> {
    pub context: &'a Arc<Context>,
    pub kernels: &'a Kernels,
    regions: &'a [Region],
    bases: [Base; 5],
    packed: Option<&'a Packed>,
}

impl<'a> View<'a> {
    pub(super) fn new(
        gpu: &'a Gpu,
        regions: &'a [Region],
        storages: &Storages,
        packed: Option<&'a Packed>,
    ) -> Self {
        let bases = Space::ALL.map(|space| storages[space as usize].base());
        Self { context: &gpu.context, kernels: &gpu.kernels, regions, bases, packed }
    }

    pub(super) fn region(&self, buffer: BufferId) -> Region {
        self.regions[buffer.0]
    }

    pub(super) fn len(&self, buffer: BufferId) -> usize {
        self.region(buffer).len
    }

    pub(super) fn place(&self, buffer: BufferId) -> Place {
        let region = self.region(buffer);
        Place::of(self.context, self.bases[region.space as usize], region)
    }

    pub(super) fn at(&self, buffer: BufferId) -> u64 {
        self.place(buffer).pointer
    }

    /// Returns true if two buffers share bytes.
    pub(super) fn overlap(&self, a: BufferId, b: BufferId) -> bool {
        let bytes = |buffer| {
            let place = self.place(buffer);
            (place.pointer, place.pointer + (self.len(buffer) * place.bytes) as u64)
        };
        let ((a, a_end), (b, b_end)) = (bytes(a), bytes(b));
        a < b_end && b < a_end
    }

    /// Address of the frozen weight of a step, if any.
    pub(super) fn frozen(&self, step: usize) -> Option<u64> {
        self.packed.and_then(|packed| packed.0[step].as_ref()).map(|copy| copy.pointer)
    }

    /// Copies the current values of a buffer to new memory.
    pub(super) fn copy_of(&self, buffer: BufferId) -> Result<Allocation, CudaError> {
        let place = self.place(buffer);
        let copy =
            Allocation::zeros(self.context, "frozen weights", self.len(buffer) * place.bytes)?;
        // SAFETY: see the type; the copy has the same size.
        let copied = unsafe {
            let stream = self.context.raw_stream();
            result::memcpy_dtod_async(copy.pointer, place.pointer, copy.bytes(), stream)
        };
        copied.named("copying weights").map(|()| copy)
    }

    /// Address of a buffer, or null.
    pub(super) fn at_some(&self, buffer: Option<BufferId>) -> u64 {
        buffer.map_or(0, |buffer| self.at(buffer))
    }
}

/// Elements that one thread loads at once, if the channels allow it.
pub(super) fn vector(context: &Context) -> usize {
    16 / context.precision.bytes()
}

/// Returns the kernel `name_v` if all `multiples` are multiples of a vector, otherwise `name_1`,
/// and the elements per thread.
pub(super) fn variant(
    context: &Context,
    names: [&'static str; 2],
    multiples: &[usize],
) -> (&'static str, usize) {
    let width = vector(context);
    match multiples.iter().all(|n| n.is_multiple_of(width)) {
        true => (names[0], width),
        false => (names[1], 1),
    }
}

pub(super) fn adds(write: Write) -> i32 {
    i32::from(write == Write::Add)
}
