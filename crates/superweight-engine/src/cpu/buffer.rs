//! Memory of the CPU device, and the one place where a program's buffers become slices.
//!
//! A storage is a zeroed vector of 32-bit words. It is allocated lazily by the operating system, so that a storage costs
//! what is touched of it.

use std::marker::PhantomData;

use crate::device::buffer::{ALIGNMENT, BufferId, Region, Space};
use crate::error::Error;

const ALIGNMENT_WORDS: usize = ALIGNMENT / 4;

/// One storage.
#[derive(Debug)]
pub struct CpuBuffer {
    words: Vec<u32>,
    /// First aligned word.
    start: usize,
    /// Words after it.
    len: usize,
    /// Size as asked for, in bytes or numbers.
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

    /// The numbers of a region.
    pub(super) fn floats_of(&self, region: Region) -> &[f32] {
        let first = region.offset * self.bytes_per_unit / 4;
        &self.floats()[first..first + region.len]
    }

    pub(super) fn floats_of_mut(&mut self, region: Region) -> &mut [f32] {
        let first = region.offset * self.bytes_per_unit / 4;
        &mut self.floats_mut()[first..first + region.len]
    }

    /// All of it as numbers.
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

/// Zeros whose pages appear when they are touched, or nothing if the system has no room for them (`vec!` would abort).
fn zeroed_words(len: usize) -> Option<Vec<u32>> {
    let layout = std::alloc::Layout::array::<u32>(len).ok()?;
    // SAFETY: the layout is not of size zero: a storage has at least its alignment.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    // SAFETY: allocated by the global allocator with the layout of a vector of this capacity, and zeros are `u32`s.
    (!start.is_null()).then(|| unsafe { Vec::from_raw_parts(start.cast(), len, len) })
}

/// A program's buffers as slices of the storages it runs over.
///
/// Two slices handed out by one `Views` may overlap only if both are for reading: `Program::compile` asserts that no
/// operand which a call writes overlaps another operand of that call, steps run one after another, and a kernel asks
/// for each operand of its call once. That is what makes [`Views::write`] sound.
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

// SAFETY: the storages are borrowed exclusively for `'a`; threads get disjoint pieces of the slices handed out.
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
        assert!(first + region.len <= base.len, "a buffer lies outside its storage");
        // SAFETY: the offset was checked to lie inside the storage.
        (unsafe { base.start.add(first) }, region.len)
    }

    /// Numbers to read.
    pub(super) fn read(&self, buffer: BufferId) -> &[f32] {
        let (start, len) = self.pointer(buffer);
        // SAFETY: inside the storage; not written by this call (see the type); any bits are an `f32`.
        unsafe { std::slice::from_raw_parts(start.cast(), len) }
    }

    /// Numbers to write.
    #[allow(clippy::mut_from_ref)]
    pub(super) fn write(&self, buffer: BufferId) -> &mut [f32] {
        let (start, len) = self.pointer(buffer);
        // SAFETY: inside the storage; no other operand of this call overlaps it (see the type).
        unsafe { std::slice::from_raw_parts_mut(start.cast(), len) }
    }

    /// Integers to read.
    pub(super) fn read_indices(&self, buffer: BufferId) -> &[u32] {
        let (start, len) = self.pointer(buffer);
        // SAFETY: as for `read`.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// Integers to write.
    #[allow(clippy::mut_from_ref)]
    pub(super) fn write_indices(&self, buffer: BufferId) -> &mut [u32] {
        let (start, len) = self.pointer(buffer);
        // SAFETY: as for `write`.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }
}
