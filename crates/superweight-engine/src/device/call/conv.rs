//! Kernel calls of `conv`.

use crate::device::buffer::{Access, BufferId, Write};
use crate::geometry::ConvGeometry;
use crate::graph::ops::activation::Activation;

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
