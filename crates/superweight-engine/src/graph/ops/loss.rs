//! Softmax cross-entropy, averaged over the valid rows: `L = −1/n Σ_r Σ_c t[r,c] · log
//! softmax(z[r])[c]`.
//!
//! The target is one class or one vector of probabilities per row. Label smoothing s replaces t by
//! `(1−s)·t + s/C`, as in PyTorch. A graph may have several losses with a weight each; the gradient
//! is that of Σ weight·L. One call computes loss and gradient: `dz = weight/n · (softmax(z)·Σt −
//! t)`.
//!
//! A row of logits may consist of several heads, each a classifier with its own target. The targets
//! of a row are stored one after another. The formulas then apply to rows × heads.
//!
//! Incomplete batches are padded. A row is valid if its index within its segment is below the
//! control word [`crate::Control::ValidRows`]. Other rows contribute to neither the loss, the
//! gradient nor the counts.

use crate::error::Error;
use crate::graph::check::check_segments;
use crate::graph::ops::operation::{BatchContext, Operation};
use crate::shape::Shape;

/// Target of a loss. The name refers to an input or to the output of any graph.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// One class per row.
    Classes(String),
    /// One vector of probabilities per row.
    Probabilities(String),
}

/// Options of a cross-entropy loss.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossEntropy {
    /// Target of the loss.
    pub target: Target,
    /// Label smoothing, from 0 to 1.
    pub smoothing: f32,
    /// Weight of this loss in the sum of the graph's losses.
    pub weight: f32,
    /// Number of equal parts of the batch. Each has its own padding at the end.
    pub segments: usize,
    /// Number of equal parts of the logits, each with its own target.
    pub heads: usize,
}

impl CrossEntropy {
    /// A loss whose target is one class per row, without label smoothing.
    pub fn classes(name: impl Into<String>) -> Self {
        Self {
            target: Target::Classes(name.into()),
            smoothing: 0.0,
            weight: 1.0,
            segments: 1,
            heads: 1,
        }
    }

    /// A loss whose target is a vector of probabilities per row.
    pub fn probabilities(name: impl Into<String>) -> Self {
        Self { target: Target::Probabilities(name.into()), ..Self::classes("") }
    }

    /// Sets the label smoothing.
    pub fn smoothing(self, smoothing: f32) -> Self {
        Self { smoothing, ..self }
    }

    /// Sets the weight of the loss.
    pub fn weight(self, weight: f32) -> Self {
        Self { weight, ..self }
    }

    /// Sets the number of segments of the batch.
    pub fn segments(self, segments: usize) -> Self {
        Self { segments, ..self }
    }

    /// Sets the number of heads.
    pub fn heads(self, heads: usize) -> Self {
        Self { heads, ..self }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) options: CrossEntropy,
}

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "cross-entropy"
    }

    fn is_loss(&self) -> bool {
        true
    }

    fn check_batch(&self, node: &str, _input: Shape, context: BatchContext) -> Result<(), Error> {
        check_segments(node, context.batch, self.options.segments)
    }
}
