//! What parallel tasks share: one destination in disjoint pieces, and scratch in slots.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};

/// A destination that several tasks write, each its own part.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a> {
    start: *mut f32,
    len: usize,
    owner: PhantomData<&'a mut [f32]>,
}

// SAFETY: a `Shared` is only a pointer; its users promise disjoint access where they dereference it.
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

    /// A part of it.
    ///
    /// # Safety
    ///
    /// No other part in use at the same time overlaps this one.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn part(&self, start: usize, len: usize) -> &mut [f32] {
        assert!(start <= self.len && len <= self.len - start, "part outside of the shared buffer");
        // SAFETY: inside the buffer by the assertion, disjoint from other parts by the caller's promise.
        unsafe { core::slice::from_raw_parts_mut(self.start.add(start), len) }
    }

    /// A part of it to read, as many at once as wanted.
    ///
    /// # Safety
    ///
    /// No part in use at the same time overlaps this one, except others to read.
    pub unsafe fn read(&self, start: usize, len: usize) -> &[f32] {
        assert!(start <= self.len && len <= self.len - start, "part outside of the shared buffer");
        // SAFETY: inside the buffer by the assertion, written by nobody by the caller's promise.
        unsafe { core::slice::from_raw_parts(self.start.add(start), len) }
    }
}

/// Scratch cut into equal slots; a task borrows the lowest free one.
///
/// There are as many slots as tasks, so one is always free; but two threads use only two of them, and those
/// stay in their cache. A slot per task by number would drag every slot through it, and a slot per thread
/// would make the size of the scratch depend on the number of threads.
pub(crate) struct Slots<'a> {
    memory: Shared<'a>,
    len: usize,
    free: AtomicU64,
}

impl<'a> Slots<'a> {
    /// The most tasks that can hold slots.
    pub const MOST: usize = 64;

    pub fn new(memory: &'a mut [f32], count: usize, len: usize) -> Self {
        assert!((1..=Self::MOST).contains(&count) && memory.len() >= count * len);
        Self { memory: Shared::new(memory), len, free: AtomicU64::new(u64::MAX >> (64 - count)) }
    }

    /// Runs a task with a slot of its own. What the slot held before is left over from other tasks.
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
        // SAFETY: the slot was free and is now this task's alone, until the bit is set again below.
        let result = task(unsafe { self.memory.part(slot * self.len, self.len) });
        self.free.fetch_or(1 << slot, Ordering::Release);
        result
    }
}
