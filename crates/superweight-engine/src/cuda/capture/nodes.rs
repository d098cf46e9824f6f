//! Nodes of a captured graph before instantiation: their kinds, their dependencies, and removal of
//! a node.

use std::ptr::{null, null_mut};

use cudarc::driver::sys as cu;

use crate::cuda::named::Named;
use crate::error::CudaError;

/// Kind of a graph node, with respect to removing memsets.
pub(in crate::cuda) enum Kind {
    /// A memset.
    Clears(cu::CUDA_MEMSET_NODE_PARAMS),
    /// A kernel or a copy.
    Plain,
    /// A node that prevents changes: an allocation (the driver removes no node of such a graph) or
    /// a nested graph.
    Fixed,
}

/// Kind of a node.
///
/// # Safety
/// As [`nodes`].
pub(in crate::cuda) unsafe fn kind(node: cu::CUgraphNode) -> Result<Kind, CudaError> {
    use cu::CUgraphNodeType as Type;
    // Read as an integer: a newer driver may have types that the enum lacks.
    let mut found = u32::MAX;
    // SAFETY: a live node, guaranteed by the caller, and room for an int.
    unsafe { cu::cuGraphNodeGetType(node, (&raw mut found).cast()) }
        .result()
        .named("cuGraphNodeGetType")?;
    let fixed = [
        Type::CU_GRAPH_NODE_TYPE_MEM_ALLOC,
        Type::CU_GRAPH_NODE_TYPE_MEM_FREE,
        Type::CU_GRAPH_NODE_TYPE_GRAPH,
        Type::CU_GRAPH_NODE_TYPE_CONDITIONAL,
    ];
    if fixed.iter().any(|&fixed| found == fixed as u32) {
        return Ok(Kind::Fixed);
    }
    if found != Type::CU_GRAPH_NODE_TYPE_MEMSET as u32 {
        return Ok(Kind::Plain);
    }
    let mut set = cu::CUDA_MEMSET_NODE_PARAMS {
        dst: 0,
        pitch: 0,
        value: 0,
        elementSize: 0,
        width: 0,
        height: 0,
    };
    // SAFETY: as above, and the node is a memset.
    unsafe { cu::cuGraphMemsetNodeGetParams(node, &mut set) }
        .result()
        .named("cuGraphMemsetNodeGetParams")?;
    Ok(Kind::Clears(set))
}

/// All nodes of a graph.
///
/// # Safety
/// For this and all functions below: graph and nodes are alive and not used elsewhere.
pub(in crate::cuda) unsafe fn nodes(graph: cu::CUgraph) -> Result<Vec<cu::CUgraphNode>, CudaError> {
    listed("cuGraphGetNodes", |nodes, count| {
        // SAFETY: room for as many nodes as requested.
        unsafe { cu::cuGraphGetNodes(graph, nodes, count) }
    })
}

/// Nodes without predecessors.
pub(in crate::cuda) unsafe fn roots(graph: cu::CUgraph) -> Result<Vec<cu::CUgraphNode>, CudaError> {
    listed("cuGraphGetRootNodes", |nodes, count| {
        // SAFETY: room for as many nodes as requested.
        unsafe { cu::cuGraphGetRootNodes(graph, nodes, count) }
    })
}

/// Calls the function twice: for the count, then for the nodes.
fn listed(
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

/// Direct predecessors of a node, in a graph of at most `most` nodes.
pub(in crate::cuda) unsafe fn before(
    node: cu::CUgraphNode,
    most: usize,
) -> Result<Vec<cu::CUgraphNode>, CudaError> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        neighbours("cuGraphNodeGetDependencies", cu::cuGraphNodeGetDependencies_v2, node, most)
    }
}

/// Direct successors of a node, in a graph of at most `most` nodes.
unsafe fn after(node: cu::CUgraphNode, most: usize) -> Result<Vec<cu::CUgraphNode>, CudaError> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        neighbours("cuGraphNodeGetDependentNodes", cu::cuGraphNodeGetDependentNodes_v2, node, most)
    }
}

type Ask = unsafe fn(
    cu::CUgraphNode,
    *mut cu::CUgraphNode,
    *mut cu::CUgraphEdgeData,
    *mut usize,
) -> cu::CUresult;

/// Reads neighbours with their edge data. Without edge data the driver refuses to list edges that
/// have some.
unsafe fn neighbours(
    call: &'static str,
    ask: Ask,
    node: cu::CUgraphNode,
    most: usize,
) -> Result<Vec<cu::CUgraphNode>, CudaError> {
    let mut count = most;
    let mut nodes = vec![null_mut(); most];
    // SAFETY: plain integers, valid as zeros.
    let mut edges: Vec<cu::CUgraphEdgeData> = vec![unsafe { std::mem::zeroed() }; most];
    // SAFETY: a live node; room for `count` nodes and edges.
    unsafe { ask(node, nodes.as_mut_ptr(), edges.as_mut_ptr(), &mut count) }
        .result()
        .named(call)?;
    nodes.truncate(count);
    Ok(nodes)
}

/// Removes a node from a graph of at most `most` nodes and connects its predecessors to its
/// successors.
pub(in crate::cuda) unsafe fn leave_out(
    graph: cu::CUgraph,
    node: cu::CUgraphNode,
    most: usize,
) -> Result<(), CudaError> {
    // SAFETY: guaranteed by the caller; the neighbours stay.
    unsafe {
        let (earlier, later) = (before(node, most)?, after(node, most)?);
        cu::cuGraphDestroyNode(node).result().named("cuGraphDestroyNode")?;
        for to in later {
            let there = before(to, most)?;
            for &from in earlier.iter().filter(|from| !there.contains(from)) {
                connect(graph, from, to)?;
            }
        }
    }
    Ok(())
}

/// Adds a dependency: `to` waits for `from`.
pub(in crate::cuda) unsafe fn connect(
    graph: cu::CUgraph,
    from: cu::CUgraphNode,
    to: cu::CUgraphNode,
) -> Result<(), CudaError> {
    // SAFETY: two nodes of the graph; null edge data means ordinary edges.
    unsafe { cu::cuGraphAddDependencies_v2(graph, &from, &to, null(), 1) }
        .result()
        .named("cuGraphAddDependencies")
}
