//! Eight f32 in a ymm register, with masks for incomplete vectors.

use core::arch::x86_64::*;

use super::vector::Vector;

/// A vector that exists only if the machine supports AVX2 and FMA.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(__m256);

/// Eight set words followed by eight clear words. A window of eight words is a mask of the first
/// `n` lanes.
static MASKS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

#[inline(always)]
unsafe fn first(n: usize) -> __m256i {
    debug_assert!(n < 8);
    // SAFETY: the window starts at 8 - n in 1..=8 and is eight words long.
    unsafe { _mm256_loadu_si256(MASKS.as_ptr().add(8 - n).cast()) }
}

impl Vector for Avx2 {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the caller guarantees the features.
        unsafe { Self(_mm256_set1_ps(x)) }
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller guarantees the features and 8 readable values.
        unsafe { Self(_mm256_loadu_ps(p)) }
    }

    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> Self {
        // SAFETY: masked lanes are not accessed.
        unsafe { Self(_mm256_maskload_ps(p, first(n))) }
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller guarantees 8 writable values.
        unsafe { _mm256_storeu_ps(p, self.0) }
    }

    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, n: usize) {
        // SAFETY: masked lanes are not accessed.
        unsafe { _mm256_maskstore_ps(p, first(n), self.0) }
    }

    #[inline(always)]
    fn add(self, b: Self) -> Self {
        // SAFETY: a value of this type is proof of the features.
        unsafe { Self(_mm256_add_ps(self.0, b.0)) }
    }

    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        // SAFETY: as in `add`.
        unsafe { Self(_mm256_sub_ps(self.0, b.0)) }
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        // SAFETY: as in `add`.
        unsafe { Self(_mm256_mul_ps(self.0, b.0)) }
    }

    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: as in `add`.
        unsafe { Self(_mm256_fmadd_ps(self.0, b.0, c.0)) }
    }
}
