//! The executable form of a program: prepared calls in order, and the location of every buffer.

use super::buffer::{BufferId, Region};
use super::call::Call;
use crate::graph::NodeId;

/// A prepared kernel call of a program.
#[derive(Debug)]
pub struct Step<K> {
    /// The kernel call.
    pub call: Call,
    /// What the device prepared for the call.
    pub kernel: K,
    /// Scratch buffer of the call, if it needs one.
    pub scratch: Option<BufferId>,
    /// Graph node that the call belongs to.
    pub node: NodeId,
    /// Whether the call is part of the backward pass.
    pub backward: bool,
}

/// Prepared calls of one program and the locations of its buffers.
#[derive(Debug)]
pub struct Schedule<K> {
    pub(crate) steps: Vec<Step<K>>,
    pub(crate) regions: Vec<Region>,
}

impl<K> Schedule<K> {
    /// All calls in execution order.
    pub fn steps(&self) -> &[Step<K>] {
        &self.steps
    }

    /// Locations of all buffers, indexed by [`BufferId`].
    pub(crate) fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Location of a buffer.
    pub fn region(&self, buffer: BufferId) -> Region {
        self.regions[buffer.0]
    }
}
