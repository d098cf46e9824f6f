//! Builds a graph node by node. The methods that add operations are in `layers.rs`.

mod layers;

use std::collections::HashSet;

use super::check::{LARGEST, check_size};
use super::ops::{Op, input::Input};
use super::slot::{Slot, SlotId, SlotKind};
use super::{Graph, Node, NodeId};
use crate::error::Error;
use crate::shape::Shape;

/// Collects nodes; [`GraphBuilder::finish`] makes the [`Graph`].
///
/// ```
/// use superweight_engine::{BatchNorm, Conv2d, CrossEntropy, GraphBuilder, Shape};
///
/// let mut g = GraphBuilder::new("tiny");
/// let images = g.input("images", Shape::new(8, 8, 3))?;
/// let x = g.conv("stem", images, Conv2d::new(16, 3).padding(1))?;
/// let x = g.batch_norm("bn", x, BatchNorm::relu())?;
/// let x = g.global_average_pool("pool", x)?;
/// let logits = g.linear("fc", x, 10, true)?;
/// g.cross_entropy("loss", logits, CrossEntropy::classes("labels"))?;
/// g.output("logits", logits)?;
/// let graph = g.finish()?;
/// assert_eq!(graph.slots().iter().filter(|s| s.name.ends_with(".weight")).count(), 3);
/// # Ok::<(), superweight_engine::Error>(())
/// ```
#[derive(Debug)]
pub struct GraphBuilder {
    graph: Graph,
    node_names: HashSet<String>,
    slot_names: HashSet<String>,
}

impl GraphBuilder {
    /// Starts an empty graph.
    pub fn new(name: impl Into<String>) -> Self {
        let graph =
            Graph { name: name.into(), nodes: Vec::new(), slots: Vec::new(), outputs: Vec::new() };
        Self { graph, node_names: HashSet::new(), slot_names: HashSet::new() }
    }

    /// Adds an input: images or vectors that the caller writes with [`crate::Memory::set_input`]
    /// under this name.
    pub fn input(&mut self, name: impl Into<String>, shape: Shape) -> Result<NodeId, Error> {
        let name = name.into();
        check_size(&name, "the height", shape.height)?;
        check_size(&name, "the width", shape.width)?;
        check_size(&name, "the number of channels", shape.channels)?;
        self.push(name, Op::Input(Input), vec![], shape)
    }

    /// Makes a node's value readable after a run under `name`. A loss of this or another graph may
    /// use it as its target. A node can be declared an output only once.
    pub fn output(&mut self, name: impl Into<String>, node: NodeId) -> Result<(), Error> {
        let name = name.into();
        if node.0 >= self.graph.nodes.len() {
            return Err(Error::UnknownNode { node: name });
        }
        let graph = self.graph.name.clone();
        if matches!(self.graph.nodes[node.0].op, Op::Input(_)) || self.is_input(&name) {
            return Err(Error::InputAsOutput { graph, name });
        }
        if self.graph.outputs.iter().flatten().any(|other| *other == name)
            || self.graph.outputs[node.0].is_some()
        {
            return Err(Error::DuplicateName { graph, name });
        }
        self.graph.outputs[node.0] = Some(name);
        Ok(())
    }

    /// Shape of a node.
    ///
    /// # Panics
    /// If the node id comes from another graph and is out of range here.
    pub fn shape(&self, node: NodeId) -> Shape {
        self.graph.nodes[node.0].shape
    }

    /// Returns the finished graph. Fails if it has neither a loss nor an output.
    pub fn finish(self) -> Result<Graph, Error> {
        let useful = |(i, node): (usize, &Node)| {
            node.op.operation().is_loss() || self.graph.outputs[i].is_some()
        };
        if !self.graph.nodes.iter().enumerate().any(useful) {
            return Err(Error::NothingToCompute { graph: self.graph.name });
        }
        Ok(self.graph)
    }

    fn is_input(&self, name: &str) -> bool {
        self.graph.nodes.iter().any(|n| n.name == name && matches!(n.op, Op::Input(_)))
    }

    /// Shape of `input`. The error names `node`, the node about to read it.
    pub(crate) fn input_of(&self, node: &str, input: NodeId) -> Result<Shape, Error> {
        match self.graph.nodes.get(input.0) {
            Some(found) if !found.op.operation().is_loss() => Ok(found.shape),
            _ => Err(Error::UnknownNode { node: node.to_owned() }),
        }
    }

    /// Registers a tensor that the graph reads but does not compute.
    pub(crate) fn slot(
        &mut self,
        name: String,
        kind: SlotKind,
        dims: Vec<usize>,
    ) -> Result<SlotId, Error> {
        if dims
            .iter()
            .try_fold(1usize, |len, d| len.checked_mul(*d))
            .is_none_or(|len| len > LARGEST)
        {
            return Err(Error::TensorTooLarge { name, dims });
        }
        if !self.slot_names.insert(name.clone()) {
            return Err(Error::DuplicateName { graph: self.graph.name.clone(), name });
        }
        self.graph.slots.push(Slot { name, kind, dims });
        Ok(SlotId(self.graph.slots.len() - 1))
    }

    pub(crate) fn push(
        &mut self,
        name: String,
        op: Op,
        inputs: Vec<NodeId>,
        shape: Shape,
    ) -> Result<NodeId, Error> {
        let area = shape.height.checked_mul(shape.width);
        if area.and_then(|area| area.checked_mul(shape.channels)).is_none_or(|len| len > LARGEST) {
            return Err(Error::TooLarge { node: name, shape, batch: 1 });
        }
        if !self.node_names.insert(name.clone()) {
            return Err(Error::DuplicateName { graph: self.graph.name.clone(), name });
        }
        self.graph.nodes.push(Node { name, op, inputs, shape });
        self.graph.outputs.push(None);
        Ok(NodeId(self.graph.nodes.len() - 1))
    }
}
