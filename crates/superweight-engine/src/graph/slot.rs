//! Tensors that a graph reads.

/// A tensor that the graph reads and does not compute: a weight, a bias, a running mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub(crate) usize);

/// What a slot is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlotKind {
    /// Weight of a convolution (OHWI) or a linear layer: what a GEMM reads; a device may keep it in low precision.
    Weight,
    /// Trainable vector: bias, batch-norm scale and shift, per-segment channel scale.
    Vector,
    /// Running statistic: changed by the forward pass, without a gradient.
    Statistic,
}

/// Name, use and size of a tensor the graph reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// PyTorch's name: the node's name, then `.weight`, `.bias`, `.running_mean` or `.running_var`.
    pub name: String,
    /// What it is used for.
    pub kind: SlotKind,
    /// Dimensions in memory: OHWI for a convolution, `[out, in]`, `[channels]` or `[segments, channels]`.
    pub dims: Vec<usize>,
}

impl Slot {
    /// Numbers in the tensor.
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether it holds no numbers (it never does: sizes of zero are refused).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
