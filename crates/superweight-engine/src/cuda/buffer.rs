//! GPU memory: allocations, storages, and addresses of regions.
//!
//! | storage | main copy | second copy in bf16 mode |
//! |---|---|---|
//! | arena, input/output | bytes as placed by the memory plan | |
//! | parameters | f32 | bf16 copy of the weights, which convolutions read. It is always current; for mixed weights the f32 may be older ([`MixOutput`](crate::MixOutput)) |
//! | gradients | bf16 for weights, as convolutions write them, then f32 | |
//! | statistics, momentum, sums | f32 | |
//!
//! Weights come first in a layout, so gradients need no table of widths. The f32 part is addressed
//! from where it would start if weights were f32 too.

use std::sync::Arc;

use cudarc::driver::result;

use crate::cuda::context::Context;
use crate::cuda::named::Named;
use crate::cuda::precision::Precision;
use crate::device::buffer::{Element, Region, Space};
use crate::error::CudaError;

/// GPU memory that is freed when dropped.
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
    /// Allocates zeroed memory. `what` names its purpose in errors.
    pub(crate) fn zeros(
        context: &Arc<Context>,
        what: &'static str,
        bytes: usize,
    ) -> Result<Self, CudaError> {
        context.bind()?;
        let requested = bytes.max(1);
        // SAFETY: a context is set; the pointer is not used before the check.
        let pointer =
            unsafe { result::malloc_sync(requested) }.map_err(
                |error| match result::mem_get_info() {
                    Ok((free, total)) if free < requested => {
                        CudaError::OutOfMemory { what, requested, free, total }
                    }
                    _ => CudaError::call(format!("allocating {requested} bytes for {what}"), error),
                },
            )?;
        context.count_allocated(requested);
        let allocation = Self { context: context.clone(), pointer, bytes: requested };
        allocation.clear()?;
        Ok(allocation)
    }

    /// Allocates a copy of plain data.
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
            // SAFETY: allocated once and freed once; the driver waits for running work that uses
            // it.
            let freed = unsafe { result::free_sync(self.pointer) };
            self.context.note(freed.named("cuMemFree"));
        }
    }
}

/// Copies data to the GPU. When this returns, the data has been read; it arrives in stream order.
pub(crate) fn upload<T: Copy>(context: &Context, to: u64, data: &[T]) -> Result<(), CudaError> {
    if data.is_empty() {
        return Ok(());
    }
    // SAFETY: the destination is at least this large; pageable memory is staged before the call
    // returns.
    unsafe { result::memcpy_htod_async(to, data, context.raw_stream()) }.named("copying to the GPU")
}

/// Copies data from the GPU and waits for it.
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

/// Sets bytes to zero.
pub(crate) fn fill(context: &Context, pointer: u64, bytes: usize) -> Result<(), CudaError> {
    // SAFETY: the allocation is at least this large.
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
    /// Number of elements at the start that are bf16 instead of f32.
    narrowed: usize,
}

/// The storages of a GPU, one per [`Space`].
pub(super) type Storages = [CudaBuffer; 5];

/// Addresses of a storage: the main copy and the bf16 copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base {
    pub main: u64,
    /// Equal to `main` if there is no bf16 copy.
    pub narrow: u64,
}

impl CudaBuffer {
    pub(super) fn new(
        context: &Arc<Context>,
        space: Space,
        size: usize,
        weights: usize,
    ) -> Result<Self, CudaError> {
        let refused = || CudaError::OutOfMemory {
            what: space.name(),
            requested: usize::MAX,
            free: 0,
            total: 0,
        };
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
        // Addresses before the first f32 element are never read.
        Base { main: start.wrapping_sub(2 * self.narrowed as u64), narrow }
    }

    pub(super) fn clear(&self) -> Result<(), CudaError> {
        self.main.clear()?;
        self.narrow.as_ref().map_or(Ok(()), Allocation::clear)
    }

    /// Copies values to the storage.
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

    /// Copies values from the storage. Parameters are read from the f32 copy, not from the bf16
    /// copy that convolutions read.
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

/// Address of a region, and the width of its elements there.
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

/// Rounds to the nearest bf16, ties to even, like the GPU.
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
    fn rounding_is_to_nearest_even_and_keeps_special_values() {
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
