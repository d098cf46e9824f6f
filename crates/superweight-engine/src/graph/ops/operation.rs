//! What every operation states about itself.

use crate::error::Error;
use crate::graph::slot::SlotId;
use crate::shape::Shape;

/// What an operation's backward pass reads of the forward pass, besides its parameters and its own small notes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keeps {
    pub inputs: bool,
    pub output: bool,
}

/// The device-free half of an operation.
pub(crate) trait Operation {
    /// The operation in one word, for labels.
    fn kind(&self) -> &'static str;

    /// Parameters it has a gradient for.
    fn parameters(&self) -> Vec<SlotId> {
        vec![]
    }

    /// What the batch size must satisfy.
    fn check_batch(&self, _node: &str, _input: Shape, _context: BatchContext) -> Result<(), Error> {
        Ok(())
    }

    /// What backward reads of the activations.
    fn keeps(&self) -> Keeps {
        Keeps::default()
    }

    /// Whether gradients start here. A loss computes no activation.
    fn is_loss(&self) -> bool {
        false
    }

    /// Whether the output may be written by accumulating into a residual (see `add`).
    fn can_accumulate(&self) -> bool {
        false
    }

    /// Multiply-adds per image.
    fn multiply_adds(&self, _input: Shape) -> u64 {
        0
    }
}

/// What a shape rule for batches looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchContext {
    pub batch: usize,
    /// Whether batch norm takes its statistics from the batch.
    pub batch_statistics: bool,
    /// Whether there is a backward pass.
    pub backward: bool,
}
