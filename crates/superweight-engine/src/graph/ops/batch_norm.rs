//! Batch normalisation with a fused activation, over segments of the batch.
//!
//! `y = act(γ·(x − μ)/√(σ² + ε) + β)` per channel. As in PyTorch, ε = 1e-5, the momentum is 0.1,
//! and the running variance is unbiased. The batch may consist of equal *segments*. Statistics and
//! parameters are each joint or per segment:
//!
//! | | statistics | parameters | running statistics |
//! |---|---|---|---|
//! | plain, BatchEnsemble | joint | joint | `[C]` |
//! | ghost batch norm | segment | joint | `[C]`, the mean of the segments' updates |
//! | EnsBN | segment | segment | `[S, C]` |
//! | – | joint | segment | `[C]` |
//!
//! The backward pass needs `x` (which the previous layer stores anyway), μ and 1/√(σ²+ε). It
//! recomputes the activation's mask from `x` with the same arithmetic as the forward pass, so it
//! does not read `y`. PyTorch's ReLU stores `y`.
//!
//! Batch statistics include every row, also padding. Training and recalibration therefore drop the
//! incomplete last batch. Evaluation pads it, but uses the running statistics, where rows are
//! independent.

use crate::error::Error;
use crate::graph::check::check_segments;
use crate::graph::ops::activation::Activation;
use crate::graph::ops::operation::{BatchContext, Keeps, Operation};
use crate::graph::slot::SlotId;
use crate::shape::Shape;

/// Whether statistics or parameters are shared by the whole batch or separate per segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One set for the whole batch.
    Joint,
    /// One set per segment.
    Segment,
}

/// Options of a batch norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNorm {
    /// Activation applied to the result.
    pub activation: Activation,
    /// Number of equal parts of the batch.
    pub segments: usize,
    /// Scope of mean and variance.
    pub statistics: Scope,
    /// Scope of scale γ and shift β.
    pub parameters: Scope,
    /// ε, added to the variance.
    pub epsilon: f32,
    /// Weight of the new batch in the running statistics.
    pub momentum: f32,
}

impl BatchNorm {
    /// One segment and no activation.
    pub fn plain() -> Self {
        Self {
            activation: Activation::None,
            segments: 1,
            statistics: Scope::Joint,
            parameters: Scope::Joint,
            epsilon: 1e-5,
            momentum: 0.1,
        }
    }

    /// One segment, followed by ReLU.
    pub fn relu() -> Self {
        Self { activation: Activation::Relu, ..Self::plain() }
    }

    /// One segment, followed by ReLU6.
    pub fn relu6() -> Self {
        Self { activation: Activation::Relu6, ..Self::plain() }
    }

    /// Sets the number of segments and the scopes of statistics and parameters.
    pub fn segmented(self, segments: usize, statistics: Scope, parameters: Scope) -> Self {
        Self { segments, statistics, parameters, ..self }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) options: BatchNorm,
    pub(crate) scale: SlotId,
    pub(crate) shift: SlotId,
    pub(crate) mean: SlotId,
    pub(crate) variance: SlotId,
}

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "batch norm"
    }

    fn parameters(&self) -> Vec<SlotId> {
        vec![self.scale, self.shift]
    }

    fn keeps(&self) -> Keeps {
        Keeps { inputs: true, output: false }
    }

    fn can_accumulate(&self) -> bool {
        self.options.activation == Activation::None
    }

    fn check_batch(&self, node: &str, input: Shape, context: BatchContext) -> Result<(), Error> {
        let BatchContext { batch, batch_statistics, .. } = context;
        let segments = self.options.segments;
        check_segments(node, batch, segments)?;
        let rows = if self.options.statistics == Scope::Segment { batch / segments } else { batch };
        if batch_statistics && rows * input.pixels() == 1 {
            return Err(Error::OneValuePerChannel { node: node.to_owned(), input, rows });
        }
        Ok(())
    }
}
