//! What a device updates in one optimizer step.

use std::ops::Range;

/// Parameters that are decayed alike.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterGroup {
    /// Stretches of the flat parameter storage.
    pub ranges: Vec<Range<usize>>,
    /// Weight decay λ.
    pub weight_decay: f32,
}

impl ParameterGroup {
    /// A group of one stretch.
    pub fn new(range: Range<usize>, weight_decay: f32) -> Self {
        Self { ranges: Vec::from([range]), weight_decay }
    }
}

/// Options of the optimizer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdOptions {
    /// Momentum μ; 0 is plain descent.
    pub momentum: f32,
    /// Whether to look ahead.
    pub nesterov: bool,
}

/// The groups and how they move, as a device sees them.
#[derive(Clone, Debug, PartialEq)]
pub struct SgdGroups {
    /// Momentum and kind.
    pub options: SgdOptions,
    /// The groups.
    pub groups: Vec<ParameterGroup>,
}
