//! Register tile of all dense convolutions: `ROWS` pixels × N vectors of channels.
//!
//! ```text
//! acc[i][j] += Σₖ row[i][k] · panel[k][j]     panel: [depth][N · LANES], rows anywhere in memory
//! ```
//!
//! A row of the left matrix is a pixel's channels in place; only the right matrix, the weight, is
//! packed. Per step of k the tile loads N vectors, broadcasts `ROWS` values and does `N · ROWS`
//! fused multiply-adds. An 8 × 2 tile needs 10 loads in the 8 cycles of its multiply-adds, well
//! below the limit of 16.

use crate::cpu::simd::Vector;

/// Returns the tile plus `rows · panel`. By value, so that it stays in registers.
///
/// # Safety
///
/// Every row is readable for `depth` floats and the panel for `depth · N · LANES`. The instruction
/// set of `V` is available.
#[inline(always)]
pub(super) unsafe fn accumulate<V: Vector, const M: usize, const N: usize>(
    mut acc: [[V; N]; M],
    rows: &[*const f32; M],
    depth: usize,
    panel: *const f32,
) -> [[V; N]; M] {
    let mut panel = panel;
    for k in 0..depth {
        // SAFETY: k < depth, and the panel pointer has advanced by k rows of N vectors.
        unsafe {
            let mut right = [V::splat(0.0); N];
            for (j, right) in right.iter_mut().enumerate() {
                *right = V::load(panel.add(j * V::LANES));
            }
            for (acc, row) in acc.iter_mut().zip(rows) {
                let left = V::splat(*row.add(k));
                for (acc, right) in acc.iter_mut().zip(right) {
                    *acc = left.mul_add(right, *acc);
                }
            }
            panel = panel.add(N * V::LANES);
        }
    }
    acc
}

/// Writes `width` channels of a tile's row to `dst`, or adds them to it.
///
/// # Safety
///
/// `dst` is writable for `width ≤ N · LANES` floats. The instruction set of `V` is available.
#[inline(always)]
pub(super) unsafe fn write<V: Vector, const N: usize>(
    row: &[V; N],
    dst: *mut f32,
    width: usize,
    add: bool,
) {
    for (j, &value) in row.iter().enumerate() {
        let left = width.saturating_sub(j * V::LANES);
        // SAFETY: accesses only the `left` remaining floats of `width`.
        unsafe {
            let dst = dst.add(j * V::LANES);
            if left >= V::LANES {
                (if add { value.add(V::load(dst)) } else { value }).store(dst);
            } else if left > 0 {
                (if add { value.add(V::load_first(dst, left)) } else { value })
                    .store_first(dst, left);
            }
        }
    }
}
