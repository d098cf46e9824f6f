//! Memory of the CPU device. Only this file turns a program's buffers into slices.
//!
//! A storage is a zeroed vector of 32-bit words. The operating system allocates its pages on first
//! use, so a storage costs only the memory that is used.

use std::marker::PhantomData;

use crate::device::buffer::{ALIGNMENT, BufferId, Region, Space};
use crate::error::Error;

const ALIGNMENT_WORDS: usize = ALIGNMENT / 4;

/// One storage.
#[derive(Debug)]
pub struct CpuBuffer {
    words: Vec<u32>,
    /// Index of the first aligned word.
    start: usize,
    /// Number of words from `start`.
    len: usize,
    /// Size as requested, in bytes or elements.
    size: usize,
    bytes_per_unit: usize,
}

/// The storages of a CPU, one per [`Space`].
pub(super) type Storages = [CpuBuffer; 5];

impl CpuBuffer {
    pub(super) fn new(size: usize, bytes_per_unit: usize) -> Result<Self, Error> {
        let refused = || Error::OutOfMemory { bytes: size as u128 * bytes_per_unit as u128 };
        let len = size.checked_mul(bytes_per_unit).ok_or_else(refused)?.div_ceil(4);
        let words = zeroed_words(len + ALIGNMENT_WORDS).ok_or_else(refused)?;
        let start = words.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT_WORDS);
        Ok(Self { words, start, len, size, bytes_per_unit })
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    fn range(&self, region: Region) -> std::ops::Range<usize> {
        let first = self.start + region.offset * self.bytes_per_unit / 4;
        first..first + region.len
    }

    pub(super) fn words(&self, region: Region) -> &[u32] {
        &self.words[self.range(region)]
    }

    pub(super) fn words_mut(&mut self, region: Region) -> &mut [u32] {
        let range = self.range(region);
        &mut self.words[range]
    }

    /// Values of a region.
    pub(super) fn floats_of(&self, region: Region) -> &[f32] {
        let first = region.offset * self.bytes_per_unit / 4;
        &self.floats()[first..first + region.len]
    }

    pub(super) fn floats_of_mut(&mut self, region: Region) -> &mut [f32] {
        let first = region.offset * self.bytes_per_unit / 4;
        &mut self.floats_mut()[first..first + region.len]
    }

    /// All values.
    pub(super) fn floats(&self) -> &[f32] {
        let words = &self.words[self.start..self.start + self.len];
        // SAFETY: `f32` has the size and alignment of `u32`, and every bit pattern is an `f32`.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len()) }
    }

    pub(super) fn floats_mut(&mut self) -> &mut [f32] {
        let words = &mut self.words[self.start..self.start + self.len];
        // SAFETY: as above, and the borrow of `self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len()) }
    }
}

/// Allocates zeroed words, whose pages are mapped on first use. Returns `None` if the system has no
/// room (`vec!` would abort).
fn zeroed_words(len: usize) -> Option<Vec<u32>> {
    let layout = std::alloc::Layout::array::<u32>(len).ok()?;
    // SAFETY: the layout does not have size zero: a storage has at least the alignment.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    // SAFETY: the global allocator returned this memory for a vector of this capacity, and zeros
    // are valid `u32`s.
    (!start.is_null()).then(|| unsafe { Vec::from_raw_parts(start.cast(), len, len) })
}

/// Buffers of a program as slices of the storages.
///
/// Two slices from one `Views` may overlap only if both are read-only. This holds because
/// `Program::compile` asserts that a written operand overlaps no other operand of its call, steps
/// run one after another, and a kernel requests each operand of its call once. So [`Views::write`]
/// is sound.
pub(super) struct Views<'a> {
    regions: &'a [Region],
    bases: [Base; 5],
    storages: PhantomData<&'a mut CpuBuffer>,
}

#[derive(Clone, Copy)]
struct Base {
    start: *mut u32,
    len: usize,
    bytes_per_unit: usize,
}

// SAFETY: the storages are borrowed exclusively for `'a`; threads use disjoint parts of the slices.
unsafe impl Send for Views<'_> {}
// SAFETY: as above.
unsafe impl Sync for Views<'_> {}

impl<'a> Views<'a> {
    pub(super) fn new(regions: &'a [Region], storages: &'a mut Storages) -> Self {
        let bases = Space::ALL.map(|space| {
            let buffer = &mut storages[space as usize];
            let (len, bytes_per_unit) = (buffer.len, buffer.bytes_per_unit);
            let start = buffer.words[buffer.start..].as_mut_ptr();
            Base { start, len, bytes_per_unit }
        });
        Self { regions, bases, storages: PhantomData }
    }

    fn pointer(&self, buffer: BufferId) -> (*mut u32, usize) {
        let region = self.regions[buffer.0];
        let base = self.bases[region.space as usize];
        let first = region.offset * base.bytes_per_unit / 4;
        assert!(first + region.len <= base.len, "a buffer exceeds its storage");
        // SAFETY: the offset was checked to be inside the storage.
        (unsafe { base.start.add(first) }, region.len)
    }

    /// Floats of a buffer, read-only.
    pub(super) fn read(&self, buffer: BufferId) -> &[f32] {
        let (start, len) = self.pointer(buffer);
        // SAFETY: inside the storage; this call does not write it (see the type); any bits are a
        // valid `f32`.
        unsafe { std::slice::from_raw_parts(start.cast(), len) }
    }

    /// Floats of a buffer, mutable.
    #[allow(clippy::mut_from_ref)]
    pub(super) fn write(&self, buffer: BufferId) -> &mut [f32] {
        let (start, len) = self.pointer(buffer);
        // SAFETY: inside the storage; no other operand of this call overlaps it (see the type).
        unsafe { std::slice::from_raw_parts_mut(start.cast(), len) }
    }

    /// Integers of a buffer, read-only.
    pub(super) fn read_indices(&self, buffer: BufferId) -> &[u32] {
        let (start, len) = self.pointer(buffer);
        // SAFETY: as for `read`.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// Integers of a buffer, mutable.
    #[allow(clippy::mut_from_ref)]
    pub(super) fn write_indices(&self, buffer: BufferId) -> &mut [u32] {
        let (start, len) = self.pointer(buffer);
        // SAFETY: as for `write`.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }
}
