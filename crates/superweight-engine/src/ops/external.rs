//! A gradient from outside: `dL/dx` of a loss that this graph does not see, such as one on the average of several
//! members. It is read from the input/output storage when the backward pass starts.

use super::{Operation, Write};
use crate::error::Error;
use crate::graph::{GraphBuilder, NodeId, Shape};
use crate::program::{Access, BufferId, Emitter};

#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) weight: f32,
}

impl GraphBuilder {
    /// Adds `weight` times the gradient found under `name` to the gradient of `x`.
    pub fn external_gradient(
        &mut self,
        name: impl Into<String>,
        x: NodeId,
        weight: f32,
    ) -> Result<NodeId, Error> {
        let name = name.into();
        self.input_of(&name, x)?;
        if !weight.is_finite() {
            return Err(Error::OutOfRange {
                node: name,
                what: "the weight",
                value: weight,
                expected: "finite",
            });
        }
        self.push(name, super::Op::ExternalGradient(Op { weight }), vec![x], Shape::vector(1))
    }
}

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "external gradient"
    }

    fn is_loss(&self) -> bool {
        true
    }

    fn forward(&self, _e: &mut Emitter<'_>, _id: NodeId) {}

    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, gradient: BufferId) {
        if let Some((dx, write)) = e.input_gradient(id, 0) {
            e.call(id, Call { weight: self.weight, x: gradient, dx, write });
        }
    }
}

/// `dx (+)= weight · x`.
#[derive(Clone, Debug)]
pub struct Call {
    /// The factor.
    pub weight: f32,
    /// The gradient given.
    pub x: BufferId,
    /// Where it goes.
    pub dx: BufferId,
    /// Replace or accumulate.
    pub write: Write,
}

impl Call {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.x, Access::Read), (self.dx, self.write.access())]
    }
}
