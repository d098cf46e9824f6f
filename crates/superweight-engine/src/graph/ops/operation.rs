//! Properties of an operation that do not depend on a device.

use crate::error::Error;
use crate::graph::slot::SlotId;
use crate::shape::Shape;

/// Which activations of the forward pass the backward pass reads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keeps {
    pub inputs: bool,
    pub output: bool,
}

/// Properties of an operation that do not depend on a device.
pub(crate) trait Operation {
    /// Kind of operation in one or two words, for labels.
    fn kind(&self) -> &'static str;

    /// Trainable tensors of the operation.
    fn parameters(&self) -> Vec<SlotId> {
        vec![]
    }

    /// Fails if the operation cannot run at this batch size and mode. `node` is its name and
    /// `input` the shape of its first input.
    fn check_batch(&self, _node: &str, _input: Shape, _context: BatchContext) -> Result<(), Error> {
        Ok(())
    }

    /// Which activations the backward pass reads.
    fn keeps(&self) -> Keeps {
        Keeps::default()
    }

    /// Returns true if gradients start here. A loss computes no activation.
    fn is_loss(&self) -> bool {
        false
    }

    /// Returns true if the kernel can accumulate its output into a residual sum (see `add`).
    fn can_accumulate(&self) -> bool {
        false
    }

    /// Number of multiply-adds per image.
    fn multiply_adds(&self, _input: Shape) -> u64 {
        0
    }
}

/// Batch size and mode that [`Operation::check_batch`] checks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchContext {
    pub batch: usize,
    /// Whether batch norm uses statistics of the batch.
    pub batch_statistics: bool,
    /// Whether there is a backward pass.
    pub backward: bool,
}
