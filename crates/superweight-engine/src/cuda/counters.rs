//! Counters that convolutions hand out their tiles by, and how a recorded step clears all of them at once.
//!
//! Many engines of cuDNN have a counter of four bytes in their workspace and clear it before each launch. Recorded, that
//! is a memset between two kernels: 0.8 µs, and 3.6 µs of gaps around it that kernels alone do not have. A step of WRN-28-10 has
//! 52 of them, 0.23 of its 10.2 ms (H200, `benches/gpu_trace.c`).
//!
//! So a plan with so small a workspace has a place of its own while it lives, which nobody else writes to. Then it is enough to
//! clear all places of a recording when it begins, and its memsets of single ones are dropped: what came before
//! each of them is joined to what came after.
//!
//! ```text
//! captured    norm ─► clear a ─► conv(a) ─► norm ─► clear b ─► conv(b)
//! replayed    clear a, b ─► norm ─► conv(a) ─► norm ─► conv(b)
//! ```
//!
//! Not taken: kernels that clear in passing, which would have to know who comes next; memsets that hang on nothing, which
//! leave kernels waiting for two kinds of nodes.

use std::collections::HashMap;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, sys as cu};

use super::error::{CudaError, Named};

/// Bytes of a place: what a plan may ask for at most. Places are multiples of it.
const PLACE: u64 = 256;
/// Four members of 28 layers, forward and back, with their other programs, take half of these; plans that find none left
/// have their workspace elsewhere.
const PLACES: u64 = 1024;

/// Memory for counters, and which places are free.
pub(crate) struct Counters {
    base: u64,
    free: Arc<Mutex<Vec<u64>>>,
    /// Where they lie.
    _memory: CudaSlice<u8>,
}

/// A plan's own place; free again with it.
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
        Ok(Self { base, free: Arc::new(Mutex::new(free)), _memory: memory })
    }

    /// A place for a workspace of so many bytes, if it is as small as that and there is one left.
    pub(crate) fn place(&self, bytes: usize) -> Option<Place> {
        if bytes == 0 || bytes as u64 > PLACE {
            return None;
        }
        let at = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(Place { at, free: self.free.clone() })
    }

    /// Clears what a captured graph clears place by place in one node that comes before all others. Says how many nodes
    /// became one.
    ///
    /// # Safety
    /// The graph is alive, of this context, and nobody else's now. Nothing in it but plans of convolutions touches places, each its own.
    pub(crate) unsafe fn clear_at_once(
        &self,
        context: cu::CUcontext,
        graph: cu::CUgraph,
    ) -> Result<usize, CudaError> {
        // SAFETY: the caller's promise; nodes are the graph's own, and none is used after it was removed.
        unsafe {
            let mut places: HashMap<u64, Vec<cu::CUgraphNode>> = HashMap::new();
            for node in nodes(graph)? {
                if let Some(place) = self.cleared_by(node)? {
                    places.entry(place).or_default().push(node);
                }
            }
            // A counter that is used twice has to be cleared in between.
            places.retain(|_, nodes| nodes.len() == 1);
            let (Some(&first), Some(&last)) = (places.keys().min(), places.keys().max()) else {
                return Ok(0);
            };
            for node in places.values().flatten() {
                leave_out(graph, *node)?;
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
            Ok(places.len())
        }
    }

    /// The place that a node clears, if it clears one and nothing else.
    unsafe fn cleared_by(&self, node: cu::CUgraphNode) -> Result<Option<u64>, CudaError> {
        let mut kind = cu::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
        // SAFETY: a live node, by the caller's promise.
        unsafe { cu::cuGraphNodeGetType(node, &mut kind) }.result().named("cuGraphNodeGetType")?;
        if kind != cu::CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET {
            return Ok(None);
        }
        let mut set =
            cu::CUDA_MEMSET_NODE_PARAMS { dst: 0, pitch: 0, value: 0, elementSize: 0, width: 0, height: 0 };
        // SAFETY: as above, and it is a memset.
        unsafe { cu::cuGraphMemsetNodeGetParams(node, &mut set) }
            .result()
            .named("cuGraphMemsetNodeGetParams")?;
        Ok(self
            .place_of(set.dst, set.width as u64 * u64::from(set.elementSize))
            .filter(|_| set.value == 0 && set.height == 1))
    }

    /// The place that these bytes lie in, all of them.
    fn place_of(&self, at: u64, bytes: u64) -> Option<u64> {
        let offset = at.checked_sub(self.base)?;
        let inside = offset < PLACES * PLACE && offset % PLACE + bytes <= PLACE;
        inside.then(|| at - offset % PLACE)
    }
}

/// # Safety
/// As [`Counters::clear_at_once`], here and below.
unsafe fn nodes(graph: cu::CUgraph) -> Result<Vec<cu::CUgraphNode>, CudaError> {
    // SAFETY: room for as many as the call asks for.
    unsafe { listed("cuGraphGetNodes", |nodes, count| cu::cuGraphGetNodes(graph, nodes, count)) }
}

unsafe fn roots(graph: cu::CUgraph) -> Result<Vec<cu::CUgraphNode>, CudaError> {
    // SAFETY: room for as many as the call asks for.
    unsafe { listed("cuGraphGetRootNodes", |nodes, count| cu::cuGraphGetRootNodes(graph, nodes, count)) }
}

unsafe fn before(node: cu::CUgraphNode) -> Result<Vec<cu::CUgraphNode>, CudaError> {
    // SAFETY: room for as many as the call asks for.
    unsafe { neighbours("cuGraphNodeGetDependencies", node, cu::cuGraphNodeGetDependencies_v2) }
}

unsafe fn after(node: cu::CUgraphNode) -> Result<Vec<cu::CUgraphNode>, CudaError> {
    // SAFETY: room for as many as the call asks for.
    unsafe { neighbours("cuGraphNodeGetDependentNodes", node, cu::cuGraphNodeGetDependentNodes_v2) }
}

/// Asked how many first, then which.
unsafe fn listed(
    call: &'static str,
    mut ask: impl FnMut(*mut cu::CUgraphNode, *mut usize) -> cu::CUresult,
) -> Result<Vec<cu::CUgraphNode>, CudaError> {
    let mut count = 0;
    ask(null_mut(), &mut count).result().named(call)?;
    let mut nodes = vec![null_mut(); count];
    if count > 0 {
        ask(nodes.as_mut_ptr(), &mut count).result().named(call)?;
        nodes.truncate(count);
    }
    Ok(nodes)
}

type Neighbours =
    unsafe fn(cu::CUgraphNode, *mut cu::CUgraphNode, *mut cu::CUgraphEdgeData, *mut usize) -> cu::CUresult;

/// With the data of edges, without which the driver refuses to list those that have some.
unsafe fn neighbours(
    call: &'static str,
    node: cu::CUgraphNode,
    ask: Neighbours,
) -> Result<Vec<cu::CUgraphNode>, CudaError> {
    let mut edges: Vec<cu::CUgraphEdgeData> = vec![];
    // SAFETY: as much room as the first call asks for, for nodes and edges.
    unsafe {
        listed(call, |nodes, count| {
            if nodes.is_null() {
                return ask(node, null_mut(), null_mut(), count);
            }
            edges.resize(*count, std::mem::zeroed());
            ask(node, nodes, edges.as_mut_ptr(), count)
        })
    }
}

/// Takes a node out and joins its ends.
unsafe fn leave_out(graph: cu::CUgraph, node: cu::CUgraphNode) -> Result<(), CudaError> {
    // SAFETY: the caller's promise; the neighbours stay.
    unsafe {
        let (before, after) = (before(node)?, after(node)?);
        cu::cuGraphDestroyNode(node).result().named("cuGraphDestroyNode")?;
        for to in after {
            let there = self::before(to)?;
            for &from in before.iter().filter(|from| !there.contains(from)) {
                connect(graph, from, to)?;
            }
        }
    }
    Ok(())
}

unsafe fn connect(graph: cu::CUgraph, from: cu::CUgraphNode, to: cu::CUgraphNode) -> Result<(), CudaError> {
    // SAFETY: two nodes of the graph; no data is an ordinary edge.
    unsafe { cu::cuGraphAddDependencies_v2(graph, &from, &to, null(), 1) }
        .result()
        .named("cuGraphAddDependencies")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::buffer::{download, fill, upload};
    use crate::cuda::on_device::{Buffer, context};

    #[test]
    fn a_place_is_free_again_with_its_plan_and_large_workspaces_have_none() {
        let Some(context) = context() else { return };
        let counters = &context.counters;
        for bytes in [0, 257, 1 << 20] {
            assert!(counters.place(bytes).is_none(), "{bytes}");
        }
        let all: Vec<_> = (0..PLACES).map_while(|_| counters.place(131)).collect();
        assert!(!all.is_empty() && counters.place(131).is_none());
        let mut at: Vec<_> = all.iter().map(|place| place.at).collect();
        at.sort_unstable();
        at.dedup();
        assert_eq!(at.len(), all.len());
        assert!(at.iter().all(|at| at.is_multiple_of(PLACE)));
        drop(all);
        assert!(counters.place(256).is_some());
    }

    #[test]
    fn bytes_belong_to_the_place_that_has_all_of_them() {
        let Some(context) = context() else { return };
        let counters = &context.counters;
        let base = counters.base;
        let end = base + PLACES * PLACE;
        for (at, bytes, place) in [
            (base, 4, Some(base)),
            (base + 384, 4, Some(base + 256)),
            (base + 256, 256, Some(base + 256)),
            (base + 384, 256, None),
            (base, 512, None),
            (end - 4, 4, Some(end - 256)),
            (end, 4, None),
            (base - 4, 4, None),
        ] {
            assert_eq!(counters.place_of(at, bytes), place, "{bytes} bytes at {}", at.wrapping_sub(base));
        }
    }

    /// Three counters are read right after they are cleared, one of them twice, and are dirty again before each replay.
    #[test]
    fn single_memsets_become_one_and_counters_are_clear_when_they_are_read() {
        let Some(context) = context() else { return };
        context.bind().unwrap();
        let places: Vec<_> = (0..3).map(|_| context.counters.place(131).unwrap()).collect();
        let (read, other) = (Buffer::bytes(&context, 64), Buffer::bytes(&context, 64));
        let order = [0, 1, 2, 1];
        let mode = cu::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let copy = |from: u64, to: u64| {
            // SAFETY: both are four live bytes or more.
            unsafe { cu::cuMemcpyDtoDAsync_v2(to, from, 4, context.raw_stream()) }.result().unwrap();
        };
        context.stream.begin_capture(mode).unwrap();
        for (i, &place) in (0u64..).zip(&order) {
            fill(&context, places[place].at, 4).unwrap();
            copy(places[place].at, read.at() + 4 * i);
        }
        // What is no counter is cleared where it was.
        fill(&context, other.at(), 8).unwrap();
        // SAFETY: the capture was begun above; the graph is this test's alone, and destroyed at its end.
        unsafe {
            let graph = cudarc::driver::result::stream::end_capture(context.raw_stream()).unwrap();
            let kinds = || nodes(graph).unwrap().len();
            assert_eq!(kinds(), 9);
            assert_eq!(context.counters.clear_at_once(context.cuda.cu_ctx(), graph).unwrap(), 2);
            // Four copies, the counter that is used twice, the other memset, the new one in front.
            assert_eq!((kinds(), roots(graph).unwrap().len()), (8, 1));
            assert_eq!(context.counters.clear_at_once(context.cuda.cu_ctx(), graph).unwrap(), 0);
            let flags = cu::CUgraphInstantiate_flags(0);
            let exec = cudarc::driver::result::graph::instantiate(graph, flags).unwrap();
            for _ in 0..3 {
                for at in places.iter().map(|place| place.at).chain([read.at(), other.at()]) {
                    upload(&context, at, &[7u32; 4]).unwrap();
                }
                cudarc::driver::result::graph::launch(exec, context.raw_stream()).unwrap();
                let mut got = [1u32; 4];
                download(&context, read.at(), &mut got).unwrap();
                assert_eq!(got, [0; 4]);
                download(&context, other.at(), &mut got).unwrap();
                assert_eq!(got, [0, 0, 7, 7]);
            }
            cudarc::driver::result::graph::exec_destroy(exec).unwrap();
            cudarc::driver::result::graph::destroy(graph).unwrap();
        }
    }
}
