//! Kernel calls of `loss`.

use crate::device::buffer::{Access, BufferId, Write};

/// Buffer of a loss's target.
#[derive(Clone, Copy, Debug)]
pub enum TargetBuffer {
    /// A class per row.
    Classes(BufferId),
    /// Probabilities per row.
    Probabilities(BufferId),
}

/// Loss, counts and the gradient of the logits.
#[derive(Clone, Debug)]
pub struct Call {
    /// Rows of the batch times heads.
    pub rows: usize,
    /// Equal parts of the batch, each with its own padded tail.
    pub segments: usize,
    /// How many of `rows` are one row of the batch.
    pub heads: usize,
    /// Classes.
    pub classes: usize,
    /// Logits.
    pub logits: BufferId,
    /// Target.
    pub target: TargetBuffer,
    /// Control words.
    pub control: BufferId,
    /// Where [`crate::Metrics`] go.
    pub metrics: BufferId,
    /// Label smoothing.
    pub smoothing: f32,
    /// Weight of the loss in the gradient.
    pub weight: f32,
    /// Gradient of the logits, where it is needed.
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
