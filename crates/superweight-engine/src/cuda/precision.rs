//! Width of activations and weights.

/// Numbers in activations, weights as convolutions read them, and dL/dW. Parameters themselves, sums and statistics are
/// always f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Brain float, on tensor cores.
    Bf16,
    /// 32-bit float, without tf32.
    F32,
}

impl Precision {
    /// Bytes of a number.
    pub fn bytes(self) -> usize {
        match self {
            Precision::Bf16 => 2,
            Precision::F32 => 4,
        }
    }

    /// `bf16` or `f32`.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Bf16 => "bf16",
            Precision::F32 => "f32",
        }
    }
}
