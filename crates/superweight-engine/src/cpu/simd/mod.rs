//! One kernel source for several instruction sets.
//!
//! A kernel is written once, over [`Vector`] and the number of rows of its register tile.
//! [`Isa::run`] compiles it per instruction set with `#[target_feature]` and selects one at run
//! time. So a binary built for baseline x86-64 uses AVX-512 where available. Every function between
//! `run` and the intrinsics must be `#[inline(always)]`, otherwise it is compiled without the
//! features.
//!
//! Not used: `multiversion`-style macros (one copy of the code per file and instruction set), and
//! AVX-512 with a slow fallback, because then tests on one machine would not run the code of other
//! machines.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
mod vector;

pub(crate) use vector::{Kernel, Vector};

/// An instruction set that this machine supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Isa {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

/// Rows of a register tile. With two vectors per row, AVX-512 fills 16 of its 32 registers and AVX2
/// 12 of 16. Twelve rows would fill 24 registers, but need more row pointers than there are
/// registers: half the speed.
#[cfg(target_arch = "x86_64")]
const AVX512_ROWS: usize = 8;
const NARROW_ROWS: usize = 6;

impl Isa {
    /// The widest instruction set that the machine supports.
    pub fn detect() -> Self {
        Self::all()[0]
    }

    /// All instruction sets that the machine supports, widest first.
    pub fn all() -> Vec<Self> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                found.push(Self::Avx512);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                found.push(Self::Avx2);
            }
        }
        found.push(Self::Portable);
        found
    }

    /// Floats per vector.
    pub fn lanes(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => avx512::Avx512::LANES,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::Avx2::LANES,
            Self::Portable => portable::Portable::LANES,
        }
    }

    /// Rows of a register tile.
    pub fn rows(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => AVX512_ROWS,
            _ => NARROW_ROWS,
        }
    }

    /// Runs a kernel with this instruction set.
    ///
    /// # Safety
    ///
    /// The kernel's own conditions on its pointers must hold.
    #[inline]
    pub unsafe fn run<K: Kernel>(self, kernel: K) {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Isa::all` is the only source of this value and checked the feature.
            Self::Avx512 => unsafe { run_avx512(kernel) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Self::Avx2 => unsafe { run_avx2(kernel) },
            // SAFETY: needs no feature; the caller guarantees the kernel's conditions.
            Self::Portable => unsafe { kernel.run::<portable::Portable, NARROW_ROWS>() },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn run_avx512<K: Kernel>(kernel: K) {
    // SAFETY: the feature is enabled here; the caller guarantees the kernel's conditions.
    unsafe { kernel.run::<avx512::Avx512, AVX512_ROWS>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn run_avx2<K: Kernel>(kernel: K) {
    // SAFETY: the features are enabled here; the caller guarantees the kernel's conditions.
    unsafe { kernel.run::<avx2::Avx2, NARROW_ROWS>() }
}
