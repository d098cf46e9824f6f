//! The four linear maps of F(4, 3), Winograd's method for four outputs of a three-tap filter with
//! six products.
//!
//! ```text
//! y = Aᵀ [ (G g) ⊙ (Bᵀ d) ]          d: 6 inputs, g: 3 taps, y: 4 outputs
//! ```
//!
//! The interpolation points are 0, ±a, ±b, ∞ with a = √½ and b = √2. The usual points 0, ±1, ±2, ∞
//! have simpler coefficients and twice the error. Relative L2 error of a simulated 64-channel
//! layer: 1.7e-6 with the usual points, 8.2e-7 with these, 4.3e-7 for direct summation in f32, and
//! 2.7e-7 for F(2×2, 3×3), which needs 1.8 times the multiplications. Also a²b² = 1, which saves
//! two multiplications in Bᵀ.

use core::mem::MaybeUninit;

use crate::cpu::simd::Vector;

const A: f32 = core::f32::consts::FRAC_1_SQRT_2;
const B: f32 = core::f32::consts::SQRT_2;
/// 1 / Π (p − q) over the other finite points q, for ±a and for ±b. For 0 it is 1.
const SCALE_A: f32 = -2.0 / 3.0;
const SCALE_B: f32 = 1.0 / 6.0;

/// A linear map of vectors, applied to each lane.
pub(super) trait Linear<const FROM: usize, const TO: usize> {
    /// Applies the map. Safety: the instruction set of `V` is available.
    unsafe fn apply<V: Vector>(x: [V; FROM]) -> [V; TO];
}

/// Bᵀ: inputs to the six points.
pub(super) struct Inputs;
/// Aᵀ: products to outputs.
pub(super) struct Outputs;
/// A, the adjoint of [`Outputs`]: output gradients to the six points.
pub(super) struct OutputGradients;
/// G: taps to the six points.
pub(super) struct Taps;
/// Gᵀ, the adjoint of [`Taps`]: products to tap gradients.
pub(super) struct TapGradients;

impl Linear<6, 6> for Inputs {
    #[inline(always)]
    unsafe fn apply<V: Vector>(x: [V; 6]) -> [V; 6] {
        // SAFETY: the caller's conditions hold here too.
        let k = |c| unsafe { V::splat(c) };
        let (even_a, odd_a) = (x[2].mul_add(k(-B * B), x[4]), x[1].mul_add(k(-B * B), x[3]));
        let (even_b, odd_b) = (x[2].mul_add(k(-A * A), x[4]), x[1].mul_add(k(-A * A), x[3]));
        [
            x[2].mul_add(k(-(A * A + B * B)), x[0].add(x[4])),
            odd_a.mul_add(k(A), even_a),
            odd_a.mul_add(k(-A), even_a),
            odd_b.mul_add(k(B), even_b),
            odd_b.mul_add(k(-B), even_b),
            x[3].mul_add(k(-(A * A + B * B)), x[1].add(x[5])),
        ]
    }
}

impl Linear<6, 4> for Outputs {
    #[inline(always)]
    unsafe fn apply<V: Vector>(m: [V; 6]) -> [V; 4] {
        // SAFETY: the caller's conditions hold here too.
        let k = |c| unsafe { V::splat(c) };
        let (even_a, odd_a) = (m[1].add(m[2]), m[1].sub(m[2]));
        let (even_b, odd_b) = (m[3].add(m[4]), m[3].sub(m[4]));
        [
            m[0].add(even_a).add(even_b),
            odd_a.mul_add(k(A), odd_b.mul(k(B))),
            even_a.mul_add(k(A * A), even_b.mul(k(B * B))),
            odd_a.mul_add(k(A * A * A), odd_b.mul_add(k(B * B * B), m[5])),
        ]
    }
}

impl Linear<4, 6> for OutputGradients {
    #[inline(always)]
    unsafe fn apply<V: Vector>(y: [V; 4]) -> [V; 6] {
        // SAFETY: the caller's conditions hold here too.
        let k = |c| unsafe { V::splat(c) };
        let (even_a, odd_a) = (y[2].mul_add(k(A * A), y[0]), y[3].mul_add(k(A * A), y[1]));
        let (even_b, odd_b) = (y[2].mul_add(k(B * B), y[0]), y[3].mul_add(k(B * B), y[1]));
        [
            y[0],
            odd_a.mul_add(k(A), even_a),
            odd_a.mul_add(k(-A), even_a),
            odd_b.mul_add(k(B), even_b),
            odd_b.mul_add(k(-B), even_b),
            y[3],
        ]
    }
}

impl Linear<3, 6> for Taps {
    #[inline(always)]
    unsafe fn apply<V: Vector>(g: [V; 3]) -> [V; 6] {
        // SAFETY: the caller's conditions hold here too.
        let k = |c| unsafe { V::splat(c) };
        let even_a = g[2].mul_add(k(A * A), g[0]).mul(k(SCALE_A));
        let even_b = g[2].mul_add(k(B * B), g[0]).mul(k(SCALE_B));
        [
            g[0],
            g[1].mul_add(k(A * SCALE_A), even_a),
            g[1].mul_add(k(-A * SCALE_A), even_a),
            g[1].mul_add(k(B * SCALE_B), even_b),
            g[1].mul_add(k(-B * SCALE_B), even_b),
            g[2],
        ]
    }
}

impl Linear<6, 3> for TapGradients {
    #[inline(always)]
    unsafe fn apply<V: Vector>(u: [V; 6]) -> [V; 3] {
        // SAFETY: the caller's conditions hold here too.
        let k = |c| unsafe { V::splat(c) };
        let (even_a, odd_a) = (u[1].add(u[2]).mul(k(SCALE_A)), u[1].sub(u[2]).mul(k(SCALE_A)));
        let (even_b, odd_b) = (u[3].add(u[4]).mul(k(SCALE_B)), u[3].sub(u[4]).mul(k(SCALE_B)));
        [
            u[0].add(even_a).add(even_b),
            odd_a.mul_add(k(A), odd_b.mul(k(B))),
            even_a.mul_add(k(A * A), even_b.mul_add(k(B * B), u[5])),
        ]
    }
}

/// A patch of vectors that are read one by one. An array was cleared by a call to memset, filled
/// and read back. Closures cannot be `#[inline(always)]`: calls remained in the loop, 7 times
/// slower.
pub(super) trait Patch<V> {
    /// Reads one vector. Safety: row and column are inside the patch, and the instruction set of
    /// `V` is available.
    unsafe fn load(&self, row: usize, column: usize) -> V;
}

/// Applies the map to the columns and then the rows of a patch: F(4×4, 3×3) from F(4, 3).
///
/// # Safety
///
/// The instruction set of `V` is available.
#[inline(always)]
pub(super) unsafe fn both<V: Vector, L: Linear<FROM, TO>, const FROM: usize, const TO: usize>(
    patch: &impl Patch<V>,
) -> [[V; TO]; TO] {
    // SAFETY: the caller guarantees the conditions; every element of `half` is written, column by
    // column.
    unsafe {
        let mut half = [[MaybeUninit::<V>::uninit(); FROM]; TO];
        for j in 0..FROM {
            let mut column = [V::splat(0.0); FROM];
            for (i, value) in column.iter_mut().enumerate() {
                *value = patch.load(i, j);
            }
            for (row, value) in half.iter_mut().zip(L::apply(column)) {
                row[j].write(value);
            }
        }
        let mut out = [[V::splat(0.0); TO]; TO];
        for (out, half) in out.iter_mut().zip(half) {
            let mut row = [V::splat(0.0); FROM];
            for (row, half) in row.iter_mut().zip(half) {
                *row = half.assume_init();
            }
            *out = L::apply(row);
        }
        out
    }
}

/// Vectors at regular distances.
pub(super) struct Regular {
    pub start: *const f32,
    pub row: usize,
    pub column: usize,
}

impl<V: Vector> Patch<V> for Regular {
    #[inline(always)]
    unsafe fn load(&self, row: usize, column: usize) -> V {
        // SAFETY: the caller's conditions hold here too.
        unsafe { V::load(self.start.add(row * self.row + column * self.column)) }
    }
}
