//! Batch normalisation with a fused activation, over segments of the batch.
//!
//! `y = act(γ·(x − μ)/√(σ² + ε) + β)` per channel; ε = 1e-5 and momentum 0.1 as PyTorch has them, running variance
//! unbiased. The batch may consist of equal *segments*; statistics and parameters are each joint or per segment:
//!
//! | | statistics | parameters | running statistics |
//! |---|---|---|---|
//! | plain, BatchEnsemble | joint | joint | `[C]` |
//! | ghost batch norm | segment | joint | `[C]`, the mean of the segments' updates |
//! | EnsBN | segment | segment | `[S, C]` |
//! | – | joint | segment | `[C]` |
//!
//! What is kept for backward is `x` (which the layer before wrote anyway), μ and 1/√(σ²+ε). The activation's mask is
//! recomputed from `x` with the very arithmetic of the forward pass, so `y` is not read again; PyTorch's ReLU keeps `y`.
//!
//! When the statistics come from the batch every row counts, padding included: training and recalibration drop the
//! tail batch, evaluation (which pads) uses the running statistics, where rows do not see each other.

use crate::error::Error;
use crate::graph::check::check_segments;
use crate::graph::ops::activation::Activation;
use crate::graph::ops::operation::{BatchContext, Keeps, Operation};
use crate::graph::slot::SlotId;
use crate::shape::Shape;

/// Whether something is one for the whole batch or one per segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One for the whole batch.
    Joint,
    /// One per segment.
    Segment,
}

/// Options of a batch norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNorm {
    /// Activation applied to the result.
    pub activation: Activation,
    /// Equal parts the batch consists of.
    pub segments: usize,
    /// Mean and variance.
    pub statistics: Scope,
    /// Scale and shift.
    pub parameters: Scope,
    /// ε, added to the variance.
    pub epsilon: f32,
    /// Weight of the new batch in the running statistics.
    pub momentum: f32,
}

impl BatchNorm {
    /// No activation, one segment.
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

    /// With ReLU.
    pub fn relu() -> Self {
        Self { activation: Activation::Relu, ..Self::plain() }
    }

    /// With ReLU6.
    pub fn relu6() -> Self {
        Self { activation: Activation::Relu6, ..Self::plain() }
    }

    /// Over this many segments, with statistics and parameters as given.
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
