//! Nodes of a captured graph that is not ready yet: what they are, who waits for whom, and how one is left out.

use std::ptr::{null, null_mut};

use cudarc::driver::sys as cu;

use crate::cuda::named::Named;
use crate::error::CudaError;

/// What a node is, to somebody who wants to leave some out.
pub(in crate::cuda) enum Kind {
    /// It sets memory to a value.
    Clears(cu::CUDA_MEMSET_NODE_PARAMS),
    /// A kernel, a copy.
    Plain,
    /// It allocates, and the driver removes no node of such a graph; or it is a graph itself.
    Fixed,
}

/// What a node is.
///
/// # Safety
/// As [`nodes`].
pub(in crate::cuda) unsafe fn kind(node: cu::CUgraphNode) -> Result<Kind, CudaError> {
    use cu::CUgraphNodeType as Type;
    // As a number: a newer driver may know types that the enumeration has not.
    let mut found = u32::MAX;
    // SAFETY: a live node, by the caller's promise, and room for what is an int to the driver.
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
    // SAFETY: as above, and it is a memset.
    unsafe { cu::cuGraphMemsetNodeGetParams(node, &mut set) }
        .result()
        .named("cuGraphMemsetNodeGetParams")?;
    Ok(Kind::Clears(set))
}

/// All of them.
///
/// # Safety
/// Of this and all below: graph and nodes are alive, and nobody else's now.
pub(in crate::cuda) unsafe fn nodes(graph: cu::CUgraph) -> Result<Vec<cu::CUgraphNode>, CudaError> {
    listed("cuGraphGetNodes", |nodes, count| {
        // SAFETY: room for as many as the call asks for.
        unsafe { cu::cuGraphGetNodes(graph, nodes, count) }
    })
}

/// Those that wait for none.
pub(in crate::cuda) unsafe fn roots(graph: cu::CUgraph) -> Result<Vec<cu::CUgraphNode>, CudaError> {
    listed("cuGraphGetRootNodes", |nodes, count| {
        // SAFETY: room for as many as the call asks for.
        unsafe { cu::cuGraphGetRootNodes(graph, nodes, count) }
    })
}

/// Asked how many first, then which.
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

/// Nodes right before this one, of at most so many.
pub(in crate::cuda) unsafe fn before(
    node: cu::CUgraphNode,
    most: usize,
) -> Result<Vec<cu::CUgraphNode>, CudaError> {
    // SAFETY: the caller's promise.
    unsafe {
        neighbours("cuGraphNodeGetDependencies", cu::cuGraphNodeGetDependencies_v2, node, most)
    }
}

/// Nodes right after this one, of at most so many.
unsafe fn after(node: cu::CUgraphNode, most: usize) -> Result<Vec<cu::CUgraphNode>, CudaError> {
    // SAFETY: the caller's promise.
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

/// With the data of edges: without it the driver refuses to list those that have some.
unsafe fn neighbours(
    call: &'static str,
    ask: Ask,
    node: cu::CUgraphNode,
    most: usize,
) -> Result<Vec<cu::CUgraphNode>, CudaError> {
    let mut count = most;
    let mut nodes = vec![null_mut(); most];
    // SAFETY: plain numbers.
    let mut edges: Vec<cu::CUgraphEdgeData> = vec![unsafe { std::mem::zeroed() }; most];
    // SAFETY: a live node; room for `count` nodes and edges.
    unsafe { ask(node, nodes.as_mut_ptr(), edges.as_mut_ptr(), &mut count) }
        .result()
        .named(call)?;
    nodes.truncate(count);
    Ok(nodes)
}

/// Takes a node out of a graph of at most so many, and joins its ends.
pub(in crate::cuda) unsafe fn leave_out(
    graph: cu::CUgraph,
    node: cu::CUgraphNode,
    most: usize,
) -> Result<(), CudaError> {
    // SAFETY: the caller's promise; the neighbours stay.
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

/// Lets one wait for another.
pub(in crate::cuda) unsafe fn connect(
    graph: cu::CUgraph,
    from: cu::CUgraphNode,
    to: cu::CUgraphNode,
) -> Result<(), CudaError> {
    // SAFETY: two nodes of the graph; no data is an ordinary edge.
    unsafe { cu::cuGraphAddDependencies_v2(graph, &from, &to, null(), 1) }
        .result()
        .named("cuGraphAddDependencies")
}
