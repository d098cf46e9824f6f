//! Memory of the GPU, and where a region of it lies.
//!
//! | storage | as bytes | beside it, in bf16 mode |
//! |---|---|---|
//! | arena, input/output | as the engine places them | |
//! | parameters | f32 | a bf16 copy of weights, kept current: what convolutions read. Of mixed weights the f32 may be older ([`MixOutput`](crate::MixOutput)) |
//! | gradients | bf16 for weights, what convolutions write; after them f32 | |
//! | statistics, momentum, sums | f32 | |
//!
//! Weights come first in a layout, so gradients need no map from tensors to widths: the f32 part is addressed from where it
//! would begin if weights were as wide.

use std::sync::Arc;

use cudarc::driver::result;

use crate::cuda::context::Context;
use crate::cuda::named::Named;
use crate::cuda::precision::Precision;
use crate::device::buffer::{Element, Region, Space};
use crate::error::CudaError;

/// Memory that is freed with its owner.
pub(crate) struct Allocation {
    context: Arc<Context>,
    pub pointer: u64,
    bytes: usize,
}

impl std::fmt::Debug for Allocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes at {:#x}", self.bytes, self.pointer)
    }
}

impl Allocation {
    /// Zeros.
    pub(crate) fn zeros(
        context: &Arc<Context>,
        what: &'static str,
        bytes: usize,
    ) -> Result<Self, CudaError> {
        context.bind()?;
        let asked = bytes.max(1);
        // SAFETY: a context is set; the pointer is not used before the check.
        let pointer = unsafe { result::malloc_sync(asked) }.map_err(|error| {
            match result::mem_get_info() {
                Ok((free, total)) if free < asked => {
                    CudaError::OutOfMemory { what, asked, free, total }
                }
                _ => CudaError::call(format!("allocating {asked} bytes for {what}"), error),
            }
        })?;
        context.count_allocated(asked);
        let allocation = Self { context: context.clone(), pointer, bytes: asked };
        allocation.clear()?;
        Ok(allocation)
    }

    /// A copy of plain data.
    pub(crate) fn of<T: Copy>(
        context: &Arc<Context>,
        what: &'static str,
        data: &[T],
    ) -> Result<Self, CudaError> {
        let allocation = Self::zeros(context, what, size_of_val(data))?;
        upload(context, allocation.pointer, data)?;
        Ok(allocation)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn clear(&self) -> Result<(), CudaError> {
        fill(&self.context, self.pointer, self.bytes)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.context.count_freed(self.bytes);
        if self.context.bind().is_ok() {
            // SAFETY: allocated once and freed once; the driver waits for what still runs on it.
            let freed = unsafe { result::free_sync(self.pointer) };
            self.context.note(freed.named("cuMemFree"));
        }
    }
}

/// Copies to the device. The data has been read when this returns; it arrives in the stream's order.
pub(crate) fn upload<T: Copy>(context: &Context, to: u64, data: &[T]) -> Result<(), CudaError> {
    if data.is_empty() {
        return Ok(());
    }
    // SAFETY: the destination was allocated at least this large; pageable memory is staged before the call returns.
    unsafe { result::memcpy_htod_async(to, data, context.raw_stream()) }.named("copying to the GPU")
}

/// Copies from the device, and waits for it.
pub(crate) fn download<T: Copy>(
    context: &Context,
    from: u64,
    data: &mut [T],
) -> Result<(), CudaError> {
    if data.is_empty() {
        return Ok(());
    }
    // SAFETY: the source is at least this large, and `data` outlives the wait below.
    unsafe { result::memcpy_dtoh_async(data, from, context.raw_stream()) }
        .named("copying from the GPU")?;
    context.synchronize()
}

/// Zeros.
pub(crate) fn fill(context: &Context, pointer: u64, bytes: usize) -> Result<(), CudaError> {
    // SAFETY: the memory was allocated at least this large.
    unsafe { result::memset_d8_async(pointer, 0, bytes, context.raw_stream()) }
        .named("clearing memory")
}

/// One storage.
#[derive(Debug)]
pub struct CudaBuffer {
    space: Space,
    main: Allocation,
    narrow: Option<Allocation>,
    size: usize,
    /// How many numbers at the start are bf16 in place of f32.
    narrowed: usize,
}

/// The storages of a GPU, one per [`Space`].
pub(super) type Storages = [CudaBuffer; 5];

/// Where a storage lies: its numbers, and those in bf16 beside them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base {
    pub main: u64,
    /// Equal to `main` where all numbers are of one width.
    pub narrow: u64,
}

impl CudaBuffer {
    pub(super) fn new(
        context: &Arc<Context>,
        space: Space,
        size: usize,
        weights: usize,
    ) -> Result<Self, CudaError> {
        let refused =
            || CudaError::OutOfMemory { what: space.name(), asked: usize::MAX, free: 0, total: 0 };
        let unit = if matches!(space, Space::Arena | Space::Io) { 1 } else { 4 };
        let bytes = size.checked_mul(unit).ok_or_else(refused)?;
        let weights = if context.precision == Precision::Bf16 { weights } else { 0 };
        let narrowed = if space == Space::Gradients { weights } else { 0 };
        let main = Allocation::zeros(context, space.name(), bytes - 2 * narrowed)?;
        let narrow = match space == Space::Parameters && weights > 0 {
            true => Some(Allocation::zeros(context, space.name(), 2 * weights)?),
            false => None,
        };
        Ok(Self { space, main, narrow, size, narrowed })
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn base(&self) -> Base {
        let start = self.main.pointer;
        let narrow = self.narrow.as_ref().map_or(start, |narrow| narrow.pointer);
        // Nobody reads what lies before the first number that is not narrowed.
        Base { main: start.wrapping_sub(2 * self.narrowed as u64), narrow }
    }

    pub(super) fn clear(&self) -> Result<(), CudaError> {
        self.main.clear()?;
        self.narrow.as_ref().map_or(Ok(()), Allocation::clear)
    }

    /// Copies numbers in.
    pub(super) fn write(
        &self,
        context: &Context,
        region: Region,
        values: &[f32],
    ) -> Result<(), CudaError> {
        let region = Region { len: values.len(), ..region };
        let parameter = self.space == Space::Parameters;
        if parameter {
            upload(context, self.base().main + 4 * region.offset as u64, values)?;
        }
        let place = Place::of(context, self.base(), region);
        match place.bytes {
            2 => upload(
                context,
                place.pointer,
                &values.iter().map(|v| to_bf16(*v)).collect::<Vec<u16>>(),
            ),
            _ if parameter => Ok(()),
            _ => upload(context, place.pointer, values),
        }
    }

    pub(super) fn write_indices(
        &self,
        context: &Context,
        region: Region,
        values: &[u32],
    ) -> Result<(), CudaError> {
        upload(context, Place::of(context, self.base(), region).pointer, values)
    }

    /// Copies numbers out; parameters as the optimizer has them, or as they were mixed for everyone, not as convolutions read them.
    pub(super) fn read(
        &self,
        context: &Context,
        region: Region,
        values: &mut [f32],
    ) -> Result<(), CudaError> {
        if self.space == Space::Parameters {
            return download(context, self.base().main + 4 * region.offset as u64, values);
        }
        let place = Place::of(context, self.base(), region);
        if place.bytes == 4 {
            return download(context, place.pointer, values);
        }
        let mut narrow = vec![0u16; values.len()];
        download(context, place.pointer, &mut narrow)?;
        values.iter_mut().zip(narrow).for_each(|(to, from)| *to = from_bf16(from));
        Ok(())
    }
}

/// Where kernels find a region, and how wide its numbers are there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub pointer: u64,
    pub bytes: usize,
}

impl Place {
    pub(crate) fn of(context: &Context, base: Base, region: Region) -> Self {
        let bytes = element_bytes(context.precision, region.element);
        let unit = match region.space {
            Space::Arena | Space::Io => 1,
            Space::State => {
                return Self { pointer: base.main + 4 * region.offset as u64, bytes: 4 };
            }
            Space::Parameters | Space::Gradients => bytes,
        };
        let start = if unit == 2 { base.narrow } else { base.main };
        Self { pointer: start + (unit * region.offset) as u64, bytes }
    }
}

pub(super) fn element_bytes(precision: Precision, element: Element) -> usize {
    match element {
        Element::Activation | Element::Weight => precision.bytes(),
        Element::Float | Element::Index => 4,
    }
}

/// To the nearest, ties to even, as the GPU rounds.
pub(crate) fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

pub(crate) fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_nearest_even_and_keeps_what_is_special() {
        for (value, expected) in [
            (1.0, 1.0),
            (1.0 + 1.0 / 256.0, 1.0),              // a tie, to even
            (1.0 + 3.0 / 256.0, 1.0 + 1.0 / 64.0), // a tie, to even
            (1.0 + 1.1 / 256.0, 1.0 + 1.0 / 128.0),
            (-0.0, -0.0),
            (f32::INFINITY, f32::INFINITY),
            (f32::MAX, f32::INFINITY),
        ] {
            let rounded = from_bf16(to_bf16(value));
            assert_eq!(rounded.to_bits(), f32::to_bits(expected), "{value}");
        }
        assert!(from_bf16(to_bf16(f32::NAN)).is_nan());
        assert!(
            from_bf16(to_bf16(f32::from_bits(0x7f80_0001))).is_nan(),
            "not rounded to infinity"
        );
    }
}
