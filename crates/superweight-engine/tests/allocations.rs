//! Checks that a step does not allocate heap memory.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Bench, hashed};
use superweight_engine::{
    BatchNorm, Conv2d, CpuDevice, CrossEntropy, GraphBuilder, Settings, Shape,
};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_step_does_not_allocate() {
    let mut g = GraphBuilder::new("net");
    let mut x = g.input("x", Shape::new(16, 16, 3)).unwrap();
    for (i, stride) in [1, 2, 1].into_iter().enumerate() {
        x = g.conv(format!("conv{i}"), x, Conv2d::new(16, 3).stride(stride).padding(1)).unwrap();
        x = g.batch_norm(format!("bn{i}"), x, BatchNorm::relu()).unwrap();
    }
    let x = g.global_average_pool("pool", x).unwrap();
    let z = g.linear("fc", x, 10, true).unwrap();
    g.cross_entropy("loss", z, CrossEntropy::classes("labels")).unwrap();
    let mut bench =
        Bench::new(&CpuDevice::new(2).unwrap(), g.finish().unwrap(), Settings::train(8));
    bench.memory.set_input("x", &hashed(1, 8 * 16 * 16 * 3)).unwrap();
    (0..3).for_each(|_| bench.run());
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    (0..20).for_each(|_| bench.run());
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    // The queue of the thread pool allocates a new block every few dozen steps.
    assert!(allocations <= 2, "{allocations} allocations in 20 steps");
}
