//! Counters from which convolution kernels take their tiles. A recorded step clears all of them
//! with one memset.
//!
//! Many cuDNN engines have a counter of four bytes in their workspace and clear it before each
//! launch. In a recording that is a memset between two kernels: 0.8 µs, plus 3.6 µs of gaps that
//! adjacent kernels do not have. A step of WRN-28-10 has 52 of them, which take 0.23 of its 10.2 ms
//! (H200, `benches/gpu_trace.c`).
//!
//! So a plan with such a small workspace gets its own slot, which nothing else writes. A recording
//! then clears all slots at its start and drops the single memsets. The predecessors of each
//! dropped memset are connected to its successors.
//!
//! ```text
//! captured    norm ─► clear a ─► conv(a) ─► norm ─► clear b ─► conv(b)
//! replayed    clear a, b ─► norm ─► conv(a) ─► norm ─► conv(b)
//! ```
//!
//! Not used: kernels that clear the counter of the next convolution, which they would have to know;
//! memsets without predecessors, which make kernels wait for two kinds of nodes.

use std::collections::HashMap;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, sys as cu};

use super::nodes::{Kind, connect, kind, leave_out, nodes, roots};
use crate::cuda::named::Named;
use crate::error::CudaError;

/// Bytes of a slot, the largest workspace that gets one. Slots are aligned to this size.
pub(crate) const PLACE: u64 = 256;
/// Number of slots. Four members of 28 layers, forward and backward with their other programs, use
/// half of them. Plans without a free slot have an ordinary workspace.
const PLACES: u64 = 1024;

/// Memory for counters, with a list of free slots.
pub(crate) struct Counters {
    pub places: Places,
    free: Arc<Mutex<Vec<u64>>>,
    /// The memory of all slots.
    _memory: CudaSlice<u8>,
}

/// The slot of one plan, which is freed with it.
#[derive(Debug)]
pub(crate) struct Place {
    pub at: u64,
    free: Arc<Mutex<Vec<u64>>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.at);
    }
}

impl Counters {
    pub(crate) fn new(stream: &Arc<CudaStream>) -> Result<Self, CudaError> {
        let bytes = (PLACES * PLACE) as usize;
        let memory = stream.alloc_zeros::<u8>(bytes).named("allocating counters")?;
        let base = memory.device_ptr(stream).0;
        let free = (0..PLACES).rev().map(|place| base + place * PLACE).collect();
        let places = Places { base, count: PLACES };
        Ok(Self { places, free: Arc::new(Mutex::new(free)), _memory: memory })
    }

    /// Returns a slot for a workspace of `bytes`, if it is small enough and a slot is free.
    pub(crate) fn place(&self, bytes: usize) -> Option<Place> {
        if bytes == 0 || bytes as u64 > PLACE {
            return None;
        }
        let at = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(Place { at, free: self.free.clone() })
    }

    /// Returns true if the slot belongs to these counters.
    pub(crate) fn have(&self, place: &Place) -> bool {
        Arc::ptr_eq(&self.free, &place.free)
    }
}

/// Consecutive slots. Only convolution plans write to them, each to its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub base: u64,
    pub count: u64,
}

/// Effect of a graph node on slots.
enum Role {
    /// Clears this slot.
    Clears(u64),
    /// No effect: a kernel, or a memset elsewhere.
    Other,
    /// Unknown effect, or the driver does not allow changes of the graph.
    Unclear,
}

impl Places {
    /// Replaces the single memsets of slots in a captured graph by one node before all others.
    /// Returns the number of replaced nodes.
    ///
    /// # Safety
    /// The graph is alive, belongs to this context, and is not used elsewhere.
    pub(crate) unsafe fn clear_at_once(
        self,
        context: cu::CUcontext,
        graph: cu::CUgraph,
    ) -> Result<usize, CudaError> {
        // SAFETY: guaranteed by the caller; nodes belong to the graph, and none is used after its
        // removal.
        unsafe {
            let nodes = nodes(graph)?;
            let mut cleared: HashMap<u64, Vec<cu::CUgraphNode>> = HashMap::new();
            for &node in &nodes {
                match self.role(node)? {
                    Role::Clears(place) => cleared.entry(place).or_default().push(node),
                    Role::Other => {}
                    Role::Unclear => return Ok(0),
                }
            }
            // A counter that is used twice must be cleared in between.
            cleared.retain(|_, nodes| nodes.len() == 1);
            let (Some(&first), Some(&last)) = (cleared.keys().min(), cleared.keys().max()) else {
                return Ok(0);
            };
            for node in cleared.values().flatten() {
                leave_out(graph, *node, nodes.len())?;
            }
            let begins = roots(graph)?;
            let clear = cu::CUDA_MEMSET_NODE_PARAMS {
                dst: first,
                pitch: 0,
                value: 0,
                elementSize: 4,
                width: ((last - first + PLACE) / 4) as usize,
                height: 1,
            };
            let mut node = null_mut();
            cu::cuGraphAddMemsetNode(&mut node, graph, null(), 0, &clear, context)
                .result()
                .named("cuGraphAddMemsetNode")?;
            for begin in begins {
                connect(graph, node, begin)?;
            }
            Ok(cleared.len())
        }
    }

    unsafe fn role(self, node: cu::CUgraphNode) -> Result<Role, CudaError> {
        // SAFETY: guaranteed by the caller.
        let set = match unsafe { kind(node) }? {
            Kind::Clears(set) => set,
            Kind::Plain => return Ok(Role::Other),
            Kind::Fixed => return Ok(Role::Unclear),
        };
        let row = set.width as u64 * u64::from(set.elementSize);
        let bytes = if set.height > 1 { set.pitch as u64 * set.height as u64 } else { row };
        Ok(match self.place_of(set.dst, bytes) {
            Some(place) if set.value == 0 && set.height == 1 => Role::Clears(place),
            None if !self.touched_by(set.dst, bytes) => Role::Other,
            _ => Role::Unclear,
        })
    }

    /// The slot that contains all these bytes.
    fn place_of(self, at: u64, bytes: u64) -> Option<u64> {
        let offset = at.checked_sub(self.base)?;
        let inside = offset < self.count * PLACE && offset % PLACE + bytes <= PLACE;
        inside.then(|| at - offset % PLACE)
    }

    fn touched_by(self, at: u64, bytes: u64) -> bool {
        at < self.base + self.count * PLACE && at + bytes > self.base
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::buffer::{download, fill, upload};
    use crate::cuda::capture::Captured;
    use crate::cuda::capture::nodes::before;
    use crate::cuda::context::{BRANCHES, Context};
    use crate::cuda::on_device::{Buffer, context};

    #[test]
    fn a_slot_is_freed_with_its_plan_and_large_workspaces_get_none() {
        let Some(context) = context() else { return };
        let counters = &context.counters;
        for bytes in [0, 257, 1 << 20] {
            assert!(counters.place(bytes).is_none(), "{bytes}");
        }
        let all: Vec<_> = (0..PLACES).map_while(|_| counters.place(131)).collect();
        assert!(all.len() as u64 == PLACES && counters.place(131).is_none());
        let mut at: Vec<_> = all.iter().map(|place| place.at).collect();
        at.sort_unstable();
        at.dedup();
        assert_eq!(at.len(), all.len());
        assert!(at.iter().all(|at| at.is_multiple_of(PLACE)));
        drop(all);
        assert!(counters.place(256).is_some());
    }

    #[test]
    fn bytes_belong_to_the_slot_that_contains_all_of_them() {
        let base = 1 << 20;
        let places = Places { base, count: 4 };
        let end = base + 4 * PLACE;
        for (at, bytes, place, touched) in [
            (base, 4, Some(base), true),
            (base + 384, 4, Some(base + 256), true),
            (base + 256, 256, Some(base + 256), true),
            (base + 384, 256, None, true),
            (base, 512, None, true),
            (base - 4, 8, None, true),
            (end - 4, 4, Some(end - 256), true),
            (end - 4, 8, None, true),
            (end, 4, None, false),
            (base - 4, 4, None, false),
        ] {
            let what = format!("{bytes} bytes at {}", at as i64 - base as i64);
            assert_eq!(
                (places.place_of(at, bytes), places.touched_by(at, bytes)),
                (place, touched),
                "{what}"
            );
        }
    }

    fn copy(context: &Context, stream: cu::CUstream, from: u64, to: u64) {
        // SAFETY: both are at least four live bytes.
        let copied = unsafe { cu::cuMemcpyDtoDAsync_v2(to, from, 4, stream) };
        context.note(copied.result().named("cuMemcpyDtoDAsync"));
    }

    /// Number of nodes, of nodes without predecessors, and of edges.
    fn shape(graph: cu::CUgraph) -> [usize; 3] {
        // SAFETY: the graph belongs to the test.
        unsafe {
            let nodes = nodes(graph).unwrap();
            let edges = nodes.iter().map(|&node| before(node, nodes.len()).unwrap().len()).sum();
            [nodes.len(), roots(graph).unwrap().len(), edges]
        }
    }

    /// Three counters, one of them used twice, are cleared, read and overwritten. The graph stays a
    /// chain.
    #[test]
    fn single_memsets_become_one_and_counters_are_zero_when_read() {
        let Some(context) = context() else { return };
        let places: Vec<_> = (0..3).map(|_| context.counters.place(131).unwrap()).collect();
        let [read, other, seven] = [(); 3].map(|()| Buffer::bytes(&context, 64));
        upload(&context, seven.at(), &[7u32; 4]).unwrap();
        let body = || {
            for (i, place) in (0u64..).zip([0, 1, 2, 1]) {
                fill(&context, places[place].at, 4)?;
                copy(&context, context.raw_stream(), places[place].at, read.at() + 4 * i);
                copy(&context, context.raw_stream(), seven.at(), places[place].at);
            }
            // Memory that is not a slot is cleared in place.
            fill(&context, other.at(), 8)?;
            context.take_failure()
        };
        let plain = Captured::new(&context.stream, Places { base: 0, count: 0 }, body).unwrap();
        assert_eq!((plain.cleared, shape(plain.graph)), (0, [13, 1, 12]));
        let captured = Captured::new(&context.stream, context.counters.places, body).unwrap();
        assert_eq!((captured.cleared, shape(captured.graph)), (2, [12, 1, 11]));
        for _ in 0..3 {
            for at in [read.at(), other.at()] {
                upload(&context, at, &[7u32; 4]).unwrap();
            }
            captured.launch().unwrap();
            let mut got = [1u32; 4];
            download(&context, read.at(), &mut got).unwrap();
            assert_eq!(got, [0; 4]);
            download(&context, other.at(), &mut got).unwrap();
            assert_eq!(got, [0, 0, 7, 7]);
        }
    }

    /// Several streams join before a memset. All of them must precede its successor.
    #[test]
    fn predecessors_of_a_memset_precede_its_successors() {
        let Some(context) = context() else { return };
        let place = context.counters.place(131).unwrap();
        let [read, other] = [(); 2].map(|()| Buffer::bytes(&context, 64));
        let body = || {
            context.side_by_side(|streams| {
                for (i, stream) in (0u64..).zip(streams) {
                    copy(&context, stream, other.at(), other.at() + 8 + 4 * i);
                }
            });
            fill(&context, place.at, 4)?;
            copy(&context, context.raw_stream(), place.at, read.at());
            context.take_failure()
        };
        let captured = Captured::new(&context.stream, context.counters.places, body).unwrap();
        // A memset, the branches, and a copy that all branches lead to.
        assert_eq!((captured.cleared, shape(captured.graph)), (1, [BRANCHES + 2, 1, 2 * BRANCHES]));
        upload(&context, place.at, &[7u32]).unwrap();
        upload(&context, read.at(), &[7u32]).unwrap();
        captured.launch().unwrap();
        let mut got = [1u32];
        download(&context, read.at(), &mut got).unwrap();
        assert_eq!(got, [0]);
    }
}
