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

use super::batch_norm::check_segments;
use super::{BatchContext, Operation, Write};
use crate::error::Error;
use crate::graph::check::check_size;
use crate::graph::{Graph, GraphBuilder, Node, NodeId, Shape};
use crate::program::{Access, BufferId, Emitter};

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

impl GraphBuilder {
    /// A loss on a vector of logits. Its [`crate::Metrics`] are readable under `name`.
    pub fn cross_entropy(
        &mut self,
        name: impl Into<String>,
        logits: NodeId,
        options: CrossEntropy,
    ) -> Result<NodeId, Error> {
        let name = name.into();
        let input = self.input_of(&name, logits)?;
        if input.pixels() != 1 {
            return Err(Error::NotAVector { node: name, op: "cross-entropy", input });
        }
        check_size(&name, "the number of segments", options.segments)?;
        check_size(&name, "the number of heads", options.heads)?;
        let outside = |what, value, expected| {
            Err(Error::OutOfRange { node: name.clone(), what, value, expected })
        };
        if !(0.0..=1.0).contains(&options.smoothing) {
            return outside("label smoothing", options.smoothing, "between 0 and 1");
        }
        if !input.channels.is_multiple_of(options.heads) {
            return outside("the number of heads", options.heads as f32, "a divisor of the logits");
        }
        if !options.weight.is_finite() {
            return outside("the weight", options.weight, "finite");
        }
        self.push(name, super::Op::CrossEntropy(Op { options }), vec![logits], Shape::vector(1))
    }
}

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "cross-entropy"
    }

    fn is_loss(&self) -> bool {
        true
    }

    fn check_batch(&self, _graph: &Graph, node: &Node, context: BatchContext) -> Result<(), Error> {
        check_segments(&node.name, context.batch, self.options.segments)
    }

    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let (logits, input) = e.input(id, 0);
        let target = match &self.options.target {
            Target::Classes(name) => TargetBuffer::Classes(e.io_classes(name, self.options.heads)),
            Target::Probabilities(name) => {
                TargetBuffer::Probabilities(e.io_activations(name, input.channels))
            }
        };
        let call = Call {
            rows: e.batch() * self.options.heads,
            segments: self.options.segments,
            heads: self.options.heads,
            classes: input.channels / self.options.heads,
            logits,
            target,
            control: e.control(),
            metrics: e.io_metrics(id),
            smoothing: self.options.smoothing,
            weight: self.options.weight,
            gradient: if e.backward() { e.input_gradient(id, 0) } else { None },
        };
        e.call(id, call);
    }

    fn backward(&self, _e: &mut Emitter<'_>, _id: NodeId, _dy: BufferId) {}
}

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
