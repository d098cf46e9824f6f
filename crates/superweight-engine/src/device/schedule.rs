//! What a device runs: prepared calls in order, over buffers with places.

use super::buffer::{BufferId, Region};
use super::call::Call;
use crate::graph::NodeId;

/// A call ready to run.
#[derive(Debug)]
pub struct Step<K> {
    /// What to compute.
    pub call: Call,
    /// What the device prepared for it.
    pub kernel: K,
    /// Its scratch memory, if it needs any.
    pub scratch: Option<BufferId>,
    /// The node it belongs to.
    pub node: NodeId,
    /// Whether it is part of the backward pass.
    pub backward: bool,
}

/// The prepared calls of one program and the places of its buffers.
#[derive(Debug)]
pub struct Schedule<K> {
    pub(crate) steps: Vec<Step<K>>,
    pub(crate) regions: Vec<Region>,
}

impl<K> Schedule<K> {
    /// The calls in order.
    pub fn steps(&self) -> &[Step<K>] {
        &self.steps
    }

    /// Places of all buffers, indexed by [`BufferId`].
    pub(crate) fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Place of one buffer.
    pub fn region(&self, buffer: BufferId) -> Region {
        self.regions[buffer.0]
    }
}
