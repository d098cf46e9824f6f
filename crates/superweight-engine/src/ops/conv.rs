//! Two-dimensional convolution: `y[n,i,j,o] = Σ x[n, i·s−p+a, j·s−p+b, c] · w[o,a,b,c]` within a group.
//!
//! Backward is two calls of the same cost: `dw` from `x` and `dy`, `dx` from `dy` and `w`. There is no bias: in every
//! architecture here a batch norm follows. Once training is over, that batch norm can be folded into the convolution
//! ([`GraphBuilder::folded_conv`]), which then has a bias and an activation, and no backward pass.

use super::activation::Activation;
use super::{BatchContext, Keeps, Operation, Write};
use crate::error::Error;
use crate::geometry::ConvGeometry;
use crate::graph::{Graph, GraphBuilder, Node, NodeId, Shape, SlotId, SlotKind};
use crate::program::{Access, BufferId, Emitter};

/// Options of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conv2d {
    /// Output channels.
    pub out_channels: usize,
    /// Kernel height and width.
    pub kernel: [usize; 2],
    /// Vertical and horizontal stride.
    pub stride: [usize; 2],
    /// Zeros added above and below, left and right.
    pub padding: [usize; 2],
    /// Groups; as many as input channels is a depthwise convolution.
    pub groups: usize,
}

impl Conv2d {
    /// A square kernel with stride 1, no padding, one group.
    pub fn new(out_channels: usize, kernel: usize) -> Self {
        Self { out_channels, kernel: [kernel; 2], stride: [1; 2], padding: [0; 2], groups: 1 }
    }

    /// With this stride both ways.
    pub fn stride(self, stride: usize) -> Self {
        Self { stride: [stride; 2], ..self }
    }

    /// With this padding on all sides.
    pub fn padding(self, padding: usize) -> Self {
        Self { padding: [padding; 2], ..self }
    }

    /// With this many groups.
    pub fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Op {
    options: Conv2d,
    weight: SlotId,
    /// Bias and activation of a batch norm that was folded into it.
    folded: Option<(SlotId, Activation)>,
}

impl GraphBuilder {
    /// A convolution; its weight is the tensor `{name}.weight`, OHWI.
    pub fn conv(
        &mut self,
        name: impl Into<String>,
        x: NodeId,
        options: Conv2d,
    ) -> Result<NodeId, Error> {
        self.any_conv(name.into(), x, options, None)
    }

    /// `act(conv(x) + bias)`: a convolution that a batch norm with fixed statistics was folded into. Its tensors are
    /// `{name}.weight`, OHWI, and `{name}.bias`. It cannot be trained.
    pub fn folded_conv(
        &mut self,
        name: impl Into<String>,
        x: NodeId,
        options: Conv2d,
        activation: Activation,
    ) -> Result<NodeId, Error> {
        self.any_conv(name.into(), x, options, Some(activation))
    }

    fn any_conv(
        &mut self,
        name: String,
        x: NodeId,
        options: Conv2d,
        folded: Option<Activation>,
    ) -> Result<NodeId, Error> {
        let input = self.input_of(&name, x)?;
        let shape = shape_rule(&name, input, &options)?;
        let [kh, kw] = options.kernel;
        let dims = vec![options.out_channels, kh, kw, input.channels / options.groups];
        let weight = self.slot(format!("{name}.weight"), SlotKind::Weight, dims)?;
        let folded = match folded {
            // As wide as a weight: the kernels that take a bias want it so.
            Some(activation) => {
                let bias = self.slot(
                    format!("{name}.bias"),
                    SlotKind::Weight,
                    vec![options.out_channels],
                )?;
                Some((bias, activation))
            }
            None => None,
        };
        self.push(name, super::Op::Conv(Op { options, weight, folded }), vec![x], shape)
    }
}

fn shape_rule(node: &str, input: Shape, options: &Conv2d) -> Result<Shape, Error> {
    use crate::graph::check::{check_size, window_output};
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
    fn geometry(&self, input: Shape, batch: usize) -> ConvGeometry {
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

    fn check_batch(&self, _graph: &Graph, node: &Node, context: BatchContext) -> Result<(), Error> {
        match context.backward && self.folded.is_some() {
            true => Err(Error::ForwardOnly { node: node.name.clone() }),
            false => Ok(()),
        }
    }

    fn keeps(&self) -> Keeps {
        Keeps { inputs: true, output: false }
    }

    fn can_accumulate(&self) -> bool {
        self.folded.is_none_or(|(_, activation)| activation == Activation::None)
    }

    fn multiply_adds(&self, graph: &Graph, node: &Node) -> u64 {
        self.geometry(graph.input_shape(node, 0), 1).multiply_adds()
    }

    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let (x, input) = e.input(id, 0);
        let geometry = self.geometry(input, e.batch());
        let (y, write) = e.accumulating_output(id);
        let epilogue = self.folded.map(|(bias, activation)| {
            let activation = match activation {
                Activation::None => e.take_activation_of_sum(id),
                own => own,
            };
            Epilogue { bias: e.parameter(bias), activation }
        });
        e.call(id, Forward { geometry, x, w: e.parameter(self.weight), y, write, epilogue });
    }

    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, dy: BufferId) {
        let (x, input) = e.input(id, 0);
        let geometry = self.geometry(input, e.batch());
        emit_backward(e, id, geometry, self.weight, x, dy);
    }
}

/// Both backward calls; shared with the linear layer.
pub(super) fn emit_backward(
    e: &mut Emitter<'_>,
    id: NodeId,
    geometry: ConvGeometry,
    weight: SlotId,
    x: BufferId,
    dy: BufferId,
) {
    let (dw, write) = e.parameter_gradient(weight);
    e.call(id, BackwardWeight { geometry, x, dy, dw, write });
    if let Some((dx, write)) = e.input_gradient(id, 0) {
        e.call(id, BackwardData { geometry, dy, w: e.parameter(weight), dx, write });
    }
}

/// What is done to a sum before it is written.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue {
    /// One number per output channel, as wide as weights are.
    pub bias: BufferId,
    /// Applied last.
    pub activation: Activation,
}

/// `y (+)= conv(x, w)`, or `y = act(y + conv(x, w) + bias)` with an epilogue.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Shapes.
    pub geometry: ConvGeometry,
    /// Input.
    pub x: BufferId,
    /// Weight, OHWI.
    pub w: BufferId,
    /// Output.
    pub y: BufferId,
    /// Replace or accumulate.
    pub write: Write,
    /// What a folded batch norm left.
    pub epilogue: Option<Epilogue>,
}

impl Forward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        let operands =
            [(self.x, Access::Read), (self.w, Access::Read), (self.y, self.write.access())];
        operands
            .into_iter()
            .chain(self.epilogue.map(|epilogue| (epilogue.bias, Access::Read)))
            .collect()
    }
}

/// `dx (+)= convᵀ(dy, w)`.
#[derive(Clone, Debug)]
pub struct BackwardData {
    /// Shapes.
    pub geometry: ConvGeometry,
    /// Gradient of the output.
    pub dy: BufferId,
    /// Weight, OHWI.
    pub w: BufferId,
    /// Gradient of the input.
    pub dx: BufferId,
    /// Replace or accumulate.
    pub write: Write,
}

impl BackwardData {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.dy, Access::Read), (self.w, Access::Read), (self.dx, self.write.access())]
    }
}

/// `dw (+)= x ⋆ dy`.
#[derive(Clone, Debug)]
pub struct BackwardWeight {
    /// Shapes.
    pub geometry: ConvGeometry,
    /// Input.
    pub x: BufferId,
    /// Gradient of the output.
    pub dy: BufferId,
    /// Gradient of the weight, OHWI.
    pub dw: BufferId,
    /// Replace or accumulate.
    pub write: Write,
}

impl BackwardWeight {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.x, Access::Read), (self.dy, Access::Read), (self.dw, self.write.access())]
    }
}
