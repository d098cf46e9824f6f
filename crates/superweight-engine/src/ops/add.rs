//! Residual add: `y = act(a + b)`.
//!
//! Usually no kernel of its own: when one side is a convolution or a batch norm used nowhere else, that kernel
//! accumulates into the sum (see `Emitter::destination`). The gradient of both sides is the gradient of the sum, shared
//! without a copy until someone adds to it.

use super::activation::{self, Activation};
use super::{Keeps, Operation};
use crate::error::Error;
use crate::graph::{GraphBuilder, NodeId};
use crate::program::{Access, BufferId, Emitter, InputGradient};

#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) activation: Activation,
}

impl GraphBuilder {
    /// The sum of two nodes of one shape, followed by an activation.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        a: NodeId,
        b: NodeId,
        activation: Activation,
    ) -> Result<NodeId, Error> {
        let name = name.into();
        let (lhs, rhs) = (self.input_of(&name, a)?, self.input_of(&name, b)?);
        if lhs != rhs {
            return Err(Error::ShapeMismatch { node: name, op: "add", lhs, rhs });
        }
        self.push(name, super::Op::Add(Op { activation }), vec![a, b], lhs)
    }
}

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "add"
    }

    fn keeps(&self) -> Keeps {
        Keeps { inputs: false, output: self.activation != Activation::None }
    }

    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let activation = self.activation;
        if let Some(fused) = e.accumulated(id) {
            if !fused.activation_done && activation != Activation::None {
                e.call(id, activation::Forward { activation, x: None, y: fused.sum });
            }
            return;
        }
        let ((a, _), (b, _)) = (e.input(id, 0), e.input(id, 1));
        let (lhs, rhs, y) = if let Some(y) = e.take_over(id, 0) {
            (None, b, y)
        } else if let Some(y) = e.take_over(id, 1) {
            (None, a, y)
        } else {
            (Some(a), b, e.output(id))
        };
        e.call(id, Sum { lhs, rhs, y, activation });
    }

    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, dy: BufferId) {
        let activation = self.activation;
        let mut gradient = dy;
        if activation != Activation::None {
            let y = e.value(id);
            let dx = if e.is_exclusive(dy) {
                InputGradient::InPlace
            } else {
                gradient = e.like(dy);
                InputGradient::To(gradient, super::Write::Set)
            };
            e.call(id, activation::Backward { activation, y, dy, dx });
        }
        e.share_gradient(id, 0, gradient);
        e.share_gradient(id, 1, gradient);
    }
}

/// `y = act(lhs + rhs)`; without `lhs`, `y = act(y + rhs)`.
#[derive(Clone, Debug)]
pub struct Sum {
    /// First summand; `None`: it lies at the destination.
    pub lhs: Option<BufferId>,
    /// Second summand.
    pub rhs: BufferId,
    /// Sum.
    pub y: BufferId,
    /// Applied to the sum.
    pub activation: Activation,
}

impl Sum {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        let mut all = vec![(self.rhs, Access::Read)];
        all.extend(self.lhs.map(|lhs| (lhs, Access::Read)));
        all.push((self.y, if self.lhs.is_some() { Access::Write } else { Access::Update }));
        all
    }
}

/// `y = x`.
#[derive(Clone, Debug)]
pub struct Copy {
    /// From.
    pub x: BufferId,
    /// To.
    pub y: BufferId,
}

impl Copy {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.x, Access::Read), (self.y, Access::Write)]
    }
}

/// `y = 0`.
#[derive(Clone, Debug)]
pub struct Fill {
    /// What is cleared.
    pub y: BufferId,
}

impl Fill {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.y, Access::Write)]
    }
}
