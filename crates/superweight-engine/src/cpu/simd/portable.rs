//! Four f32 in an array, for any machine. The compiler uses NEON or SSE. `mul_add` rounds twice,
//! because a fused operation is a library call on machines without the instruction.

use super::vector::Vector;

/// Four floats.
#[derive(Clone, Copy)]
pub(crate) struct Portable([f32; 4]);

impl Portable {
    #[inline(always)]
    fn zip(self, b: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self([
            f(self.0[0], b.0[0]),
            f(self.0[1], b.0[1]),
            f(self.0[2], b.0[2]),
            f(self.0[3], b.0[3]),
        ])
    }
}

impl Vector for Portable {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self([x; 4])
    }

    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller guarantees 4 readable values.
        unsafe { Self(p.cast::<[f32; 4]>().read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn load_first(p: *const f32, n: usize) -> Self {
        let mut v = [0.0; 4];
        for (i, v) in v.iter_mut().enumerate().take(n) {
            // SAFETY: i < n, and the caller guarantees n readable values.
            *v = unsafe { *p.add(i) };
        }
        Self(v)
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller guarantees 4 writable values.
        unsafe { p.cast::<[f32; 4]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn store_first(self, p: *mut f32, n: usize) {
        for (i, v) in self.0.iter().enumerate().take(n) {
            // SAFETY: i < n, and the caller guarantees n writable values.
            unsafe { *p.add(i) = *v }
        }
    }

    #[inline(always)]
    fn add(self, b: Self) -> Self {
        self.zip(b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        self.zip(b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        self.zip(b, |a, b| a * b)
    }

    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        self.zip(b, |a, b| a * b).add(c)
    }
}
