//! Linear layer: `y = x·wᵀ + b`, on vectors.
//!
//! The product is a 1×1 convolution over 1×1 images, so it is the same kernel call; only the bias is its own.

use super::{Keeps, Operation, Write, conv};
use crate::error::Error;
use crate::geometry::ConvGeometry;
use crate::graph::check::check_size;
use crate::graph::{Graph, GraphBuilder, Node, NodeId, Shape, SlotId, SlotKind};
use crate::program::{Access, BufferId, Emitter};

#[derive(Clone, Debug)]
pub(crate) struct Op {
    out_features: usize,
    weight: SlotId,
    bias: Option<SlotId>,
}

impl GraphBuilder {
    /// A linear layer; its tensors are `{name}.weight`, `[out, in]`, and `{name}.bias`.
    pub fn linear(
        &mut self,
        name: impl Into<String>,
        x: NodeId,
        out_features: usize,
        bias: bool,
    ) -> Result<NodeId, Error> {
        let name = name.into();
        let input = self.input_of(&name, x)?;
        let shape = shape_rule(&name, input, out_features)?;
        let weight = self.slot(
            format!("{name}.weight"),
            SlotKind::Weight,
            vec![out_features, input.channels],
        )?;
        let bias = match bias {
            true => {
                Some(self.slot(format!("{name}.bias"), SlotKind::Vector, vec![out_features])?)
            }
            false => None,
        };
        self.push(name, super::Op::Linear(Op { out_features, weight, bias }), vec![x], shape)
    }
}

fn shape_rule(node: &str, input: Shape, out_features: usize) -> Result<Shape, Error> {
    check_size(node, "the number of output features", out_features)?;
    if input.pixels() != 1 {
        return Err(Error::NotAVector { node: node.to_owned(), op: "linear", input });
    }
    Ok(Shape::vector(out_features))
}

impl Op {
    fn geometry(&self, in_channels: usize, batch: usize) -> ConvGeometry {
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

    fn multiply_adds(&self, graph: &Graph, node: &Node) -> u64 {
        self.geometry(graph.input_shape(node, 0).channels, 1).multiply_adds()
    }

    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let (x, input) = e.input(id, 0);
        let geometry = self.geometry(input.channels, e.batch());
        let y = e.output(id);
        let w = e.parameter(self.weight);
        e.call(id, conv::Forward { geometry, x, w, y, write: Write::Set, epilogue: None });
        if let Some(bias) = self.bias {
            e.call(id, BiasForward { channels: self.out_features, bias: e.parameter(bias), y });
        }
    }

    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, dy: BufferId) {
        if let Some(bias) = self.bias {
            let (dbias, write) = e.parameter_gradient(bias);
            e.call(id, BiasBackward { channels: self.out_features, dy, dbias, write });
        }
        let (x, input) = e.input(id, 0);
        let geometry = self.geometry(input.channels, e.batch());
        conv::emit_backward(e, id, geometry, self.weight, x, dy);
    }
}

/// `y += bias`, row by row.
#[derive(Clone, Debug)]
pub struct BiasForward {
    /// Length of a row.
    pub channels: usize,
    /// The bias.
    pub bias: BufferId,
    /// Rows to add it to.
    pub y: BufferId,
}

impl BiasForward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.bias, Access::Read), (self.y, Access::Update)]
    }
}

/// `dbias (+)= Σ rows of dy`.
#[derive(Clone, Debug)]
pub struct BiasBackward {
    /// Length of a row.
    pub channels: usize,
    /// Gradient of the output.
    pub dy: BufferId,
    /// Gradient of the bias.
    pub dbias: BufferId,
    /// Replace or accumulate.
    pub write: Write,
}

impl BiasBackward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.dy, Access::Read), (self.dbias, self.write.access())]
    }
}
