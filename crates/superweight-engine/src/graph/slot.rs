//! Tensors that a graph reads but does not compute: weights, biases, running statistics.

/// Identifies a tensor that the graph reads but does not compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub(crate) usize);

/// Purpose of a tensor that a graph reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlotKind {
    /// Weight of a convolution (OHWI) or a linear layer, the operand of a GEMM. A device may store
    /// it in low precision.
    Weight,
    /// Trainable vector: bias, batch-norm scale and shift, or per-segment channel scale.
    Vector,
    /// Running statistic. The forward pass updates it; it has no gradient.
    Statistic,
}

/// Name, purpose and dimensions of a tensor that the graph reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// PyTorch's name: the node's name followed by `.weight`, `.bias`, `.running_mean` or
    /// `.running_var`.
    pub name: String,
    /// Purpose of the tensor.
    pub kind: SlotKind,
    /// Dimensions in memory order: OHWI for a convolution, `[out, in]`, `[channels]` or `[segments,
    /// channels]`.
    pub dims: Vec<usize>,
}

impl Slot {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Returns true if the tensor has no elements. This never happens: sizes of zero are rejected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
