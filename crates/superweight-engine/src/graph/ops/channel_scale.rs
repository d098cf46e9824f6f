//! Per-segment channel scale: `y[n,·,·,c] = x[n,·,·,c] · r[segment(n), c]`.
//!
//! It implements the rank-one factors of BatchEnsemble. Member m of S owns rows `m·B/S ..
//! (m+1)·B/S` of the batch and scales the channels before and after each shared layer.

use crate::error::Error;
use crate::graph::check::check_segments;
use crate::graph::ops::operation::{BatchContext, Keeps, Operation};
use crate::graph::slot::SlotId;
use crate::shape::Shape;

#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) segments: usize,
    pub(crate) scale: SlotId,
}

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "channel scale"
    }

    fn parameters(&self) -> Vec<SlotId> {
        vec![self.scale]
    }

    fn keeps(&self) -> Keeps {
        Keeps { inputs: true, output: false }
    }

    fn check_batch(&self, node: &str, _input: Shape, context: BatchContext) -> Result<(), Error> {
        check_segments(node, context.batch, self.segments)
    }
}
