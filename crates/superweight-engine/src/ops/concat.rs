//! Concatenation along channels: each input is copied into its columns of the output, one call per input.

use super::{Operation, Write};
use crate::error::Error;
use crate::graph::{GraphBuilder, NodeId};
use crate::program::{Access, BufferId, Emitter};

#[derive(Clone, Debug)]
pub(crate) struct Op;

impl GraphBuilder {
    /// Nodes of equal height and width side by side.
    pub fn concat(&mut self, name: impl Into<String>, inputs: &[NodeId]) -> Result<NodeId, Error> {
        let name = name.into();
        let Some((&first, rest)) = inputs.split_first() else {
            return Err(Error::NoInputs { node: name, op: "concat" });
        };
        let mut shape = self.input_of(&name, first)?;
        for &input in rest {
            let (lhs, rhs) = (shape, self.input_of(&name, input)?);
            if (lhs.height, lhs.width) != (rhs.height, rhs.width) {
                return Err(Error::ShapeMismatch { node: name, op: "concat", lhs, rhs });
            }
            shape.channels += rhs.channels;
        }
        self.push(name, super::Op::Concat(Op), inputs.to_vec(), shape)
    }
}

/// Which columns of the wide side belong to the narrow side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// First column.
    pub start: usize,
    /// Columns of the narrow side.
    pub width: usize,
    /// Columns of the wide side.
    pub of: usize,
}

impl Op {
    fn columns(e: &Emitter<'_>, id: NodeId) -> Vec<Columns> {
        let of = e.shape(id).channels;
        let mut start = 0;
        let mut columns = Vec::new();
        for index in 0..e.inputs(id) {
            let width = e.input(id, index).1.channels;
            columns.push(Columns { start, width, of });
            start += width;
        }
        columns
    }
}

impl Operation for Op {
    fn kind(&self) -> &'static str {
        "concat"
    }

    fn forward(&self, e: &mut Emitter<'_>, id: NodeId) {
        let y = e.output(id);
        for (index, columns) in Self::columns(e, id).into_iter().enumerate() {
            let (x, _) = e.input(id, index);
            // The first copy defines the buffer as far as liveness goes; the others fill the rest of it.
            let first = index == 0;
            e.call(id, Forward { columns, x, y, first });
        }
    }

    fn backward(&self, e: &mut Emitter<'_>, id: NodeId, dy: BufferId) {
        for (index, columns) in Self::columns(e, id).into_iter().enumerate() {
            if let Some((dx, write)) = e.input_gradient(id, index) {
                e.call(id, Backward { columns, dy, dx, write });
            }
        }
    }
}

/// Copies `x` into columns of `y`.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Which columns.
    pub columns: Columns,
    /// Narrow input.
    pub x: BufferId,
    /// Wide output.
    pub y: BufferId,
    /// Whether nothing of `y` is written yet.
    pub first: bool,
}

impl Forward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        let access = if self.first { Access::Write } else { Access::Update };
        vec![(self.x, Access::Read), (self.y, access)]
    }
}

/// Copies or adds columns of `dy` into `dx`.
#[derive(Clone, Debug)]
pub struct Backward {
    /// Which columns.
    pub columns: Columns,
    /// Wide gradient.
    pub dy: BufferId,
    /// Narrow gradient.
    pub dx: BufferId,
    /// Replace or accumulate.
    pub write: Write,
}

impl Backward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.dy, Access::Read), (self.dx, self.write.access())]
    }
}
