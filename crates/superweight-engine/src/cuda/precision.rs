//! Precision of activations and weights on a GPU.

/// Precision of activations, of the weights that convolutions read, and of dL/dW. Parameters, sums
/// and statistics are always f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// bfloat16, on tensor cores.
    Bf16,
    /// 32-bit float, without tf32.
    F32,
}

impl Precision {
    /// Bytes per value.
    pub fn bytes(self) -> usize {
        match self {
            Precision::Bf16 => 2,
            Precision::F32 => 4,
        }
    }

    /// Returns `bf16` or `f32`.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Bf16 => "bf16",
            Precision::F32 => "f32",
        }
    }
}
