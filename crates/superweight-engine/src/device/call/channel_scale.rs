//! Kernel calls of `channel_scale`.

use crate::device::buffer::{Access, BufferId, Write};

/// Rows, segments and channels of a scaled activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleShape {
    /// Rows (pixels of all images) in a segment.
    pub rows: usize,
    /// Segments.
    pub segments: usize,
    /// Channels.
    pub channels: usize,
}

/// `y = x·r`.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Rows, segments, channels.
    pub shape: ScaleShape,
    /// Input; `None`: it lies at the destination.
    pub x: Option<BufferId>,
    /// `r`.
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
    /// Rows, segments, channels.
    pub shape: ScaleShape,
    /// Input of the forward pass.
    pub x: BufferId,
    /// Gradient of the output.
    pub dy: BufferId,
    /// `r`.
    pub scale: BufferId,
    /// Gradient of `r`.
    pub dscale: BufferId,
    /// Replace or accumulate the gradient of `r`.
    pub write: Write,
    /// Gradient of the input, where it is needed.
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
