//! Linear layer on vectors: `y = x·wᵀ + b`.
//!
//! The product is a 1×1 convolution over 1×1 images and uses the same kernel call. Only the bias
//! has its own call.

use crate::error::Error;
use crate::geometry::ConvGeometry;
use crate::graph::check::check_size;
use crate::graph::ops::operation::{Keeps, Operation};
use crate::graph::slot::SlotId;
use crate::shape::Shape;

#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) out_features: usize,
    pub(crate) weight: SlotId,
    pub(crate) bias: Option<SlotId>,
}

pub(crate) fn shape_rule(node: &str, input: Shape, out_features: usize) -> Result<Shape, Error> {
    check_size(node, "the number of output features", out_features)?;
    if input.pixels() != 1 {
        return Err(Error::NotAVector { node: node.to_owned(), op: "linear", input });
    }
    Ok(Shape::vector(out_features))
}

impl Op {
    pub(crate) fn geometry(&self, in_channels: usize, batch: usize) -> ConvGeometry {
        ConvGeometry {
            batch,
            input: [1; 2],
            in_channels,
            out_channels: self.out_features,
            kernel: [1; 2],
            stride: [1; 2],
            padding: [0; 2],
            groups: 1,
        }
    }
}

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "linear"
    }

    fn parameters(&self) -> Vec<SlotId> {
        [self.weight].into_iter().chain(self.bias).collect()
    }

    fn keeps(&self) -> Keeps {
        Keeps { inputs: true, output: false }
    }

    fn multiply_adds(&self, input: Shape) -> u64 {
        self.geometry(input.channels, 1).multiply_adds()
    }
}
