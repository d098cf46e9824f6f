//! Parameter groups and options of stochastic gradient descent.

use std::ops::Range;

/// Parameters with the same weight decay and learning rate.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterGroup {
    /// Ranges of the flat parameter storage.
    pub ranges: Vec<Range<usize>>,
    /// Weight decay λ.
    pub weight_decay: f32,
}

impl ParameterGroup {
    /// A group of one range.
    pub fn new(range: Range<usize>, weight_decay: f32) -> Self {
        Self { ranges: Vec::from([range]), weight_decay }
    }
}

/// Options of the optimizer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdOptions {
    /// Momentum μ. With 0 the optimizer is plain SGD and keeps no momentum buffer.
    pub momentum: f32,
    /// Whether to use Nesterov momentum.
    pub nesterov: bool,
}

/// Options and parameter groups of an optimizer.
#[derive(Clone, Debug, PartialEq)]
pub struct SgdGroups {
    /// Momentum and its variant.
    pub options: SgdOptions,
    /// All parameter groups.
    pub groups: Vec<ParameterGroup>,
}
