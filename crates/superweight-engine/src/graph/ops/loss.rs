//! Softmax cross-entropy, the mean over the valid rows: `L = −1/n Σ_r Σ_c t[r,c] · log softmax(z[r])[c]`.
//!
//! The target is a class per row or a row of probabilities. With label smoothing s both become `(1−s)·t + s/C`, as in
//! PyTorch. A graph may have several losses, each with a weight; the gradient is that of Σ weight·L. Loss and gradient
//! are one call: `dz = weight/n · (softmax(z)·Σt − t)`.
//!
//! A row of logits may have several heads, each of which tells classes apart by itself: of `heads` targets one after another
//! each is one head's, and everything above is said of rows × heads.
//!
//! Tail batches are padded: a row counts if its place in its segment is below the control word
//! [`crate::Control::ValidRows`]. Rows that do not count have no loss, no gradient, and no place in the counts.

use crate::error::Error;
use crate::graph::check::check_segments;
use crate::graph::ops::operation::{BatchContext, Operation};
use crate::shape::Shape;

/// Where a loss finds what the network should have said; the name is that of an input or of some graph's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A class per row.
    Classes(String),
    /// A row of probabilities per row.
    Probabilities(String),
}

/// Options of a cross-entropy loss.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossEntropy {
    /// What to learn.
    pub target: Target,
    /// Label smoothing, 0 to 1.
    pub smoothing: f32,
    /// Weight of this loss among the losses of the graph.
    pub weight: f32,
    /// Equal parts of the batch, each with its own padded tail.
    pub segments: usize,
    /// Equal parts of the logits, each with a target of its own.
    pub heads: usize,
}

impl CrossEntropy {
    /// Targets are classes.
    pub fn classes(name: impl Into<String>) -> Self {
        Self {
            target: Target::Classes(name.into()),
            smoothing: 0.0,
            weight: 1.0,
            segments: 1,
            heads: 1,
        }
    }

    /// Targets are probabilities.
    pub fn probabilities(name: impl Into<String>) -> Self {
        Self { target: Target::Probabilities(name.into()), ..Self::classes("") }
    }

    /// With label smoothing.
    pub fn smoothing(self, smoothing: f32) -> Self {
        Self { smoothing, ..self }
    }

    /// With this weight.
    pub fn weight(self, weight: f32) -> Self {
        Self { weight, ..self }
    }

    /// Over a batch of this many segments.
    pub fn segments(self, segments: usize) -> Self {
        Self { segments, ..self }
    }

    /// With so many heads.
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
