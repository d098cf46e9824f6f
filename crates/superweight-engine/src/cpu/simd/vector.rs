//! Traits of SIMD vectors and of kernels written over them.

/// A register of `LANES` floats.
///
/// The constructors are `unsafe` because they need the instruction set. A value proves that it is
/// available, so arithmetic on values is safe.
pub(crate) trait Vector: Copy {
    /// Floats per register.
    const LANES: usize;

    /// Sets all lanes to `x`. Safety: the instruction set is available.
    unsafe fn splat(x: f32) -> Self;
    /// Loads `LANES` floats. Safety: the instruction set is available and `p` is readable for
    /// `LANES`.
    unsafe fn load(p: *const f32) -> Self;
    /// Loads the first `n < LANES` floats and fills the rest with zeros. Safety: as `load`, for
    /// `n`.
    unsafe fn load_first(p: *const f32, n: usize) -> Self;
    /// Stores `LANES` floats. Safety: `p` is writable for `LANES`.
    unsafe fn store(self, p: *mut f32);
    /// Stores the first `n < LANES` floats and writes nothing else. Safety: `p` is writable for
    /// `n`.
    unsafe fn store_first(self, p: *mut f32, n: usize);

    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    /// Computes `self · b + c`.
    fn mul_add(self, b: Self, c: Self) -> Self;
}

/// A kernel over any vector type, with register tiles of `ROWS` rows by two or three vectors.
pub(crate) trait Kernel {
    /// Runs the kernel. Safety: only [`super::Isa::run`] may call it, where the instruction set of
    /// `V` is available. Implementations must be `#[inline(always)]`.
    unsafe fn run<V: Vector, const ROWS: usize>(self);
}
