//! Sixteen f32 in a zmm register, with masks for incomplete vectors.

use core::arch::x86_64::*;

use super::vector::Vector;

/// A vector that exists only if the machine supports AVX-512F.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(__m512);

fn first(n: usize) -> __mmask16 {
    debug_assert!(n < 16);
    (1u16 << n) - 1
}

impl Vector for Avx512 {
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the caller guarantees the feature.
        unsafe { Self(_mm512_set1_ps(x)) }
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller guarantees the feature and 16 readable values.
        unsafe { Self(_mm512_loadu_ps(p)) }
    }

    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> Self {
        // SAFETY: masked lanes are not accessed.
        unsafe { Self(_mm512_maskz_loadu_ps(first(n), p)) }
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller guarantees 16 writable values.
        unsafe { _mm512_storeu_ps(p, self.0) }
    }

    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, n: usize) {
        // SAFETY: masked lanes are not accessed.
        unsafe { _mm512_mask_storeu_ps(p, first(n), self.0) }
    }

    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: a value of this type is proof of the feature.
        unsafe { Self(_mm512_add_ps(self.0, b.0)) }
    }

    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: as in `add`.
        unsafe { Self(_mm512_sub_ps(self.0, b.0)) }
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: as in `add`.
        unsafe { Self(_mm512_mul_ps(self.0, b.0)) }
    }

    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: as in `add`.
        unsafe { Self(_mm512_fmadd_ps(self.0, b.0, c.0)) }
    }
}
