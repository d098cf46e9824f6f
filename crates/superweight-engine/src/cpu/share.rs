//! Memory shared by parallel tasks: one output in disjoint parts, and scratch memory in slots.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};

/// An output buffer that several tasks write in disjoint parts.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a> {
    start: *mut f32,
    len: usize,
    owner: PhantomData<&'a mut [f32]>,
}

// SAFETY: `Shared` is only a pointer; callers of its unsafe methods guarantee disjoint access.
unsafe impl Send for Shared<'_> {}
// SAFETY: as above.
unsafe impl Sync for Shared<'_> {}

impl<'a> Shared<'a> {
    pub fn new(slice: &'a mut [f32]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), owner: PhantomData }
    }

    pub fn as_ptr(&self) -> *mut f32 {
        self.start
    }

    /// A mutable part of the buffer.
    ///
    /// # Safety
    ///
    /// No other part in use at the same time may overlap this one.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn part(&self, start: usize, len: usize) -> &mut [f32] {
        assert!(start <= self.len && len <= self.len - start, "the part exceeds the shared buffer");
        // SAFETY: inside the buffer by the assertion; disjoint from other parts by the caller's
        // guarantee.
        unsafe { core::slice::from_raw_parts_mut(self.start.add(start), len) }
    }

    /// A read-only part of the buffer.
    ///
    /// # Safety
    ///
    /// No mutable part in use at the same time may overlap this one.
    pub unsafe fn read(&self, start: usize, len: usize) -> &[f32] {
        assert!(start <= self.len && len <= self.len - start, "the part exceeds the shared buffer");
        // SAFETY: inside the buffer by the assertion; not written by the caller's guarantee.
        unsafe { core::slice::from_raw_parts(self.start.add(start), len) }
    }
}

/// Scratch memory in equal slots. A task borrows the lowest free slot.
///
/// There are as many slots as tasks, so one is always free. Two threads use only two slots, which
/// stay in their caches. A fixed slot per task would move every slot through the cache. A slot per
/// thread would make the scratch size depend on the number of threads.
pub(crate) struct Slots<'a> {
    memory: Shared<'a>,
    len: usize,
    free: AtomicU64,
}

impl<'a> Slots<'a> {
    /// Largest number of slots.
    pub const MOST: usize = 64;

    pub fn new(memory: &'a mut [f32], count: usize, len: usize) -> Self {
        assert!((1..=Self::MOST).contains(&count) && memory.len() >= count * len);
        Self { memory: Shared::new(memory), len, free: AtomicU64::new(u64::MAX >> (64 - count)) }
    }

    /// Runs a task with its own slot. The slot may contain data of earlier tasks.
    pub fn with<R>(&self, task: impl FnOnce(&mut [f32]) -> R) -> R {
        let slot = loop {
            let free = self.free.load(Ordering::Relaxed);
            assert!(free != 0, "more tasks at once than slots");
            let slot = free.trailing_zeros();
            let taken = free & !(1 << slot);
            if self
                .free
                .compare_exchange_weak(free, taken, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                break slot as usize;
            }
        };
        // SAFETY: the slot was free and belongs to this task until its bit is set again below.
        let result = task(unsafe { self.memory.part(slot * self.len, self.len) });
        self.free.fetch_or(1 << slot, Ordering::Release);
        result
    }
}
