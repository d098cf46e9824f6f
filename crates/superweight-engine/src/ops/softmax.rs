//! Softmax over channels, as a node of its own: probabilities to read, or to teach another graph with.

use super::{Keeps, Operation, Write};
use crate::error::Error;
use crate::graph::{GraphBuilder, NodeId};
use crate::program::{Access, BufferId, Emitter};

#[derive(Clone, Debug)]
pub(crate) struct Op;

impl GraphBuilder {
    /// Probabilities of a vector of logits.
    pub fn softmax(&mut self, name: impl Into<String>, x: NodeId) -> Result<NodeId, Error> {
        let name = name.into();
        let input = self.input_of(&name, x)?;
        if input.pixels() != 1 {
            return Err(Error::NotAVector { node: name, op: "softmax", input });
        }
        self.push(name, super::Op::Softmax(Op), vec![x], input)
    }
}

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "softmax"
    }

    fn keeps(&self) -> Keeps {
        Keeps { inputs: false, output: true }
    }

    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let (x, input) = e.input(id, 0);
        let y = e.output(id);
        e.call(id, Forward { channels: input.channels, x, y });
    }

    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, dy: BufferId) {
        let (y, channels) = (e.value(id), e.shape(id).channels);
        if let Some((dx, write)) = e.input_gradient(id, 0) {
            e.call(id, Backward { channels, y, dy, dx, write });
        }
    }
}

/// `y = exp(x) / Σ exp(x)`, row by row.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Length of a row.
    pub channels: usize,
    /// Logits.
    pub x: BufferId,
    /// Probabilities.
    pub y: BufferId,
}

impl Forward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.x, Access::Read), (self.y, Access::Write)]
    }
}

/// `dx (+)= y·(dy − Σ y·dy)`, row by row.
#[derive(Clone, Debug)]
pub struct Backward {
    /// Length of a row.
    pub channels: usize,
    /// Probabilities.
    pub y: BufferId,
    /// Gradient of the probabilities.
    pub dy: BufferId,
    /// Gradient of the logits.
    pub dx: BufferId,
    /// Replace or accumulate.
    pub write: Write,
}

impl Backward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.y, Access::Read), (self.dy, Access::Read), (self.dx, self.write.access())]
    }
}
