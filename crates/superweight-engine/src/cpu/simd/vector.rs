//! Vectors of floats and kernels over them.

/// A register of `LANES` f32.
///
/// The constructors are `unsafe` because they need the instruction set; a value is the proof that it is
/// there, so arithmetic on values is safe.
pub(crate) trait Vector: Copy {
    /// Numbers in the register.
    const LANES: usize;

    /// All lanes `x`. Safety: the instruction set is present.
    unsafe fn splat(x: f32) -> Self;
    /// `LANES` numbers. Safety: the instruction set is present and `p` is readable for `LANES`.
    unsafe fn load(p: *const f32) -> Self;
    /// The first `n < LANES` numbers, then zeros. Safety: as `load`, for `n`.
    unsafe fn load_first(p: *const f32, n: usize) -> Self;
    /// Safety: `p` is writable for `LANES`.
    unsafe fn store(self, p: *mut f32);
    /// Safety: `p` is writable for `n < LANES`; nothing past that is touched.
    unsafe fn store_first(self, p: *mut f32, n: usize);

    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    /// `self · b + c`.
    fn mul_add(self, b: Self, c: Self) -> Self;
}

/// A kernel over any vector, with register tiles of `ROWS` rows by two or three vectors.
pub(crate) trait Kernel {
    /// Safety: called by [`Isa::run`] only, where the set of `V` is present; must be `#[inline(always)]`.
    unsafe fn run<V: Vector, const ROWS: usize>(self);
}
