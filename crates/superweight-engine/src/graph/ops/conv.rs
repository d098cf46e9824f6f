//! Two-dimensional convolution: `y[n,i,j,o] = Σ x[n, i·s−p+a, j·s−p+b, c] · w[o,a,b,c]` within a
//! group.
//!
//! The backward pass has two calls of the same cost: `dw` from `x` and `dy`, and `dx` from `dy` and
//! `w`. There is no bias, because a batch norm follows in every supported architecture. After
//! training, that batch norm can be folded into the convolution
//! ([`crate::GraphBuilder::folded_conv`]). A folded convolution has a bias and an activation, but
//! no backward pass.

use crate::error::Error;
use crate::geometry::ConvGeometry;
use crate::graph::check::{check_size, window_output};
use crate::graph::ops::activation::Activation;
use crate::graph::ops::operation::{BatchContext, Keeps, Operation};
use crate::graph::slot::SlotId;
use crate::shape::Shape;

/// Options of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conv2d {
    /// Number of output channels.
    pub out_channels: usize,
    /// Kernel height and width.
    pub kernel: [usize; 2],
    /// Vertical and horizontal stride.
    pub stride: [usize; 2],
    /// Zeros added above and below, and left and right.
    pub padding: [usize; 2],
    /// Number of groups. A depthwise convolution has as many groups as input channels.
    pub groups: usize,
}

impl Conv2d {
    /// A square kernel with stride 1, no padding and one group.
    pub fn new(out_channels: usize, kernel: usize) -> Self {
        Self { out_channels, kernel: [kernel; 2], stride: [1; 2], padding: [0; 2], groups: 1 }
    }

    /// Sets the same stride for both directions.
    pub fn stride(self, stride: usize) -> Self {
        Self { stride: [stride; 2], ..self }
    }

    /// Sets the same padding for all sides.
    pub fn padding(self, padding: usize) -> Self {
        Self { padding: [padding; 2], ..self }
    }

    /// Sets the number of groups.
    pub fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) options: Conv2d,
    pub(crate) weight: SlotId,
    /// Bias and activation of the folded batch norm, if any.
    pub(crate) folded: Option<(SlotId, Activation)>,
}

pub(crate) fn shape_rule(node: &str, input: Shape, options: &Conv2d) -> Result<Shape, Error> {
    check_size(node, "the number of output channels", options.out_channels)?;
    check_size(node, "the number of groups", options.groups)?;
    let (in_channels, out_channels, groups) =
        (input.channels, options.out_channels, options.groups);
    if in_channels % groups != 0 || out_channels % groups != 0 {
        return Err(Error::Groups { node: node.to_owned(), groups, in_channels, out_channels });
    }
    let [height, width] =
        window_output(node, input, options.kernel, options.stride, options.padding)?;
    Ok(Shape::new(height, width, out_channels))
}

impl Op {
    pub(crate) fn geometry(&self, input: Shape, batch: usize) -> ConvGeometry {
        let Conv2d { out_channels, kernel, stride, padding, groups } = self.options;
        ConvGeometry {
            batch,
            input: [input.height, input.width],
            in_channels: input.channels,
            out_channels,
            kernel,
            stride,
            padding,
            groups,
        }
    }
}

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "conv"
    }

    fn parameters(&self) -> Vec<SlotId> {
        vec![self.weight]
    }

    fn check_batch(&self, node: &str, _input: Shape, context: BatchContext) -> Result<(), Error> {
        match context.backward && self.folded.is_some() {
            true => Err(Error::ForwardOnly { node: node.to_owned() }),
            false => Ok(()),
        }
    }

    fn keeps(&self) -> Keeps {
        Keeps { inputs: true, output: false }
    }

    fn can_accumulate(&self) -> bool {
        self.folded.is_none_or(|(_, activation)| activation == Activation::None)
    }

    fn multiply_adds(&self, input: Shape) -> u64 {
        self.geometry(input, 1).multiply_adds()
    }
}
