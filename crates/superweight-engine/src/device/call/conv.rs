//! Kernel calls of convolutions. Linear layers use them too.

use crate::device::buffer::{Access, BufferId, Write};
use crate::geometry::ConvGeometry;
use crate::graph::ops::activation::Activation;

/// Bias and activation applied to a convolution before its output is written.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue {
    /// One value per output channel, in the precision of weights.
    pub bias: BufferId,
    /// Activation applied last.
    pub activation: Activation,
}

/// `y (+)= conv(x, w)`, or `y = act(y + conv(x, w) + bias)` with an epilogue.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Sizes of the convolution.
    pub geometry: ConvGeometry,
    /// Input.
    pub x: BufferId,
    /// Weight, OHWI.
    pub w: BufferId,
    /// Output.
    pub y: BufferId,
    /// Whether the output is overwritten or accumulated.
    pub write: Write,
    /// Bias and activation of a folded batch norm.
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
    /// Sizes of the convolution.
    pub geometry: ConvGeometry,
    /// Gradient of the output.
    pub dy: BufferId,
    /// Weight, OHWI.
    pub w: BufferId,
    /// Gradient of the input.
    pub dx: BufferId,
    /// Whether the output is overwritten or accumulated.
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
    /// Sizes of the convolution.
    pub geometry: ConvGeometry,
    /// Input.
    pub x: BufferId,
    /// Gradient of the output.
    pub dy: BufferId,
    /// Gradient of the weight, OHWI.
    pub dw: BufferId,
    /// Whether the output is overwritten or accumulated.
    pub write: Write,
}

impl BackwardWeight {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        vec![(self.x, Access::Read), (self.dy, Access::Read), (self.dw, self.write.access())]
    }
}
