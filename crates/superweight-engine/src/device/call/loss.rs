//! Kernel call of the cross-entropy loss.

use crate::device::buffer::{Access, BufferId, Write};

/// Buffer that holds the target of a loss.
#[derive(Clone, Copy, Debug)]
pub enum TargetBuffer {
    /// One class per row.
    Classes(BufferId),
    /// One vector of probabilities per row.
    Probabilities(BufferId),
}

/// Computes the loss, the counts of correct rows and the gradient of the logits.
#[derive(Clone, Debug)]
pub struct Call {
    /// Batch size times heads.
    pub rows: usize,
    /// Number of equal parts of the batch. Each has its own padding at the end.
    pub segments: usize,
    /// Number of consecutive `rows` that belong to one row of the batch.
    pub heads: usize,
    /// Number of classes.
    pub classes: usize,
    /// Logits.
    pub logits: BufferId,
    /// Target.
    pub target: TargetBuffer,
    /// Control words.
    pub control: BufferId,
    /// Output for [`crate::Metrics`].
    pub metrics: BufferId,
    /// Label smoothing.
    pub smoothing: f32,
    /// Weight of the loss in the gradient.
    pub weight: f32,
    /// Gradient of the logits, if it is needed.
    pub gradient: Option<(BufferId, Write)>,
}

impl Call {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        let (TargetBuffer::Classes(target) | TargetBuffer::Probabilities(target)) = self.target;
        let mut all =
            vec![(self.logits, Access::Read), (target, Access::Read), (self.control, Access::Read)];
        all.push((self.metrics, Access::Write));
        all.extend(self.gradient.map(|(gradient, write)| (gradient, write.access())));
        all
    }
}
