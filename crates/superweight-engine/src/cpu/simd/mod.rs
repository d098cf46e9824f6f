//! One kernel source, several instruction sets.
//!
//! A kernel is written once over [`Vector`] and the number of rows of its register tile. [`Isa::run`]
//! compiles it per instruction set behind `#[target_feature]` and picks at run time, so that one binary built
//! for baseline x86-64 uses AVX-512 where it is found. Everything between `run` and the intrinsics must be
//! `#[inline(always)]`, or it is compiled without the features.
//!
//! Not taken: `multiversion`-style macros (one copy of the code per file and set), and writing AVX-512 only
//! with a slow fallback: then the tests on this machine would never see the code other machines run.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
mod vector;

pub(crate) use vector::{Kernel, Vector};

/// An instruction set this machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Isa {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

/// Rows of a register tile. With two vectors a row, AVX-512 fills 16 of its 32 registers and AVX2 12 of 16.
/// Twelve rows would fill 24, but have more row pointers than there are registers for: half the speed.
#[cfg(target_arch = "x86_64")]
const AVX512_ROWS: usize = 8;
const NARROW_ROWS: usize = 6;

impl Isa {
    /// The widest set the machine has.
    pub fn detect() -> Self {
        Self::all()[0]
    }

    /// Every set the machine has, widest first.
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

    /// Numbers in a vector.
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

    /// Runs a kernel with this set.
    ///
    /// # Safety
    ///
    /// The kernel's own conditions on its pointers hold.
    #[inline]
    pub unsafe fn run<K: Kernel>(self, kernel: K) {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Isa::all` is the only source of this value, and it checked the feature.
            Self::Avx512 => unsafe { run_avx512(kernel) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Self::Avx2 => unsafe { run_avx2(kernel) },
            // SAFETY: needs no feature; the kernel's conditions are the caller's.
            Self::Portable => unsafe { kernel.run::<portable::Portable, NARROW_ROWS>() },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn run_avx512<K: Kernel>(kernel: K) {
    // SAFETY: the set is enabled here; the kernel's conditions are the caller's.
    unsafe { kernel.run::<avx512::Avx512, AVX512_ROWS>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn run_avx2<K: Kernel>(kernel: K) {
    // SAFETY: the set is enabled here; the kernel's conditions are the caller's.
    unsafe { kernel.run::<avx2::Avx2, NARROW_ROWS>() }
}
