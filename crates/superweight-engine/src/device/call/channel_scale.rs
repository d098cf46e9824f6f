//! Kernel calls of the per-segment channel scale.

use crate::device::buffer::{Access, BufferId, Write};

/// Sizes of a scaled activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleShape {
    /// Number of rows (pixels of all images) per segment.
    pub rows: usize,
    /// Number of segments.
    pub segments: usize,
    /// Number of channels.
    pub channels: usize,
}

/// `y = x·r`, with a factor `r` per segment and channel.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Sizes of the activation.
    pub shape: ScaleShape,
    /// Input. `None` if the input is already in `y`.
    pub x: Option<BufferId>,
    /// Factors `r`.
    pub scale: BufferId,
    /// Output.
    pub y: BufferId,
}

impl Forward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        let mut all = vec![(self.scale, Access::Read)];
        all.extend(self.x.map(|x| (x, Access::Read)));
        all.push((self.y, if self.x.is_some() { Access::Write } else { Access::Update }));
        all
    }
}

/// `dr (+)= Σ dy·x` over the rows of a segment, `dx (+)= dy·r`.
#[derive(Clone, Debug)]
pub struct Backward {
    /// Sizes of the activation.
    pub shape: ScaleShape,
    /// Input of the forward pass.
    pub x: BufferId,
    /// Gradient of the output.
    pub dy: BufferId,
    /// Factors `r`.
    pub scale: BufferId,
    /// Gradient of `r`.
    pub dscale: BufferId,
    /// Whether the gradient of `r` is overwritten or accumulated.
    pub write: Write,
    /// Gradient of the input, if it is needed.
    pub dx: Option<(BufferId, Write)>,
}

impl Backward {
    pub(super) fn operands(&self) -> Vec<(BufferId, Access)> {
        let mut all =
            vec![(self.x, Access::Read), (self.dy, Access::Read), (self.scale, Access::Read)];
        all.push((self.dscale, self.write.access()));
        all.extend(self.dx.map(|(dx, write)| (dx, write.access())));
        all
    }
}
