//! Compiles loops three times: for AVX-512, AVX2 and any x86-64. The call selects the best version
//! that the machine supports. Loops multiply and add separately, so all versions give the same
//! bits.

/// Defines a function whose body is compiled for each instruction set.
macro_rules! vectorised {
    ($($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {$(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name($($arg: $ty),*) {
            #[allow(clippy::too_many_arguments)]
            #[inline(always)]
            fn body($($arg: $ty),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[allow(clippy::too_many_arguments)]
                #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
                fn avx512($($arg: $ty),*) { body($($arg),*) }

                #[allow(clippy::too_many_arguments)]
                #[target_feature(enable = "avx2")]
                fn avx2($($arg: $ty),*) { body($($arg),*) }

                if std::arch::is_x86_feature_detected!("avx512f")
                    && std::arch::is_x86_feature_detected!("avx512vl")
                    && std::arch::is_x86_feature_detected!("avx512bw")
                    && std::arch::is_x86_feature_detected!("avx512dq")
                {
                    // SAFETY: the machine supports these instructions.
                    return unsafe { avx512($($arg),*) };
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the machine supports these instructions.
                    return unsafe { avx2($($arg),*) };
                }
            }
            body($($arg),*)
        }
    )*};
}

/// Runs a body over columns `0..width` in blocks of 64, 16 and 1. `N` is the block's width, a
/// constant.
macro_rules! column_blocks {
    ($width:expr, |$column:ident, $n:ident| $body:block) => {{
        let width: usize = $width;
        let mut $column = 0;
        column_blocks!(@step width, $column, $n = 64, $body);
        column_blocks!(@step width, $column, $n = 16, $body);
        column_blocks!(@step width, $column, $n = 1, $body);
    }};
    (@step $width:ident, $column:ident, $n:ident = $size:literal, $body:block) => {{
        const $n: usize = $size;
        while $column + $n <= $width {
            $body
            $column += $n;
        }
    }};
}

pub(super) use {column_blocks, vectorised};

/// A block of a row as an array, so that loops over it have a constant length.
#[inline(always)]
pub(super) fn block<const N: usize>(row: &[f32], column: usize) -> &[f32; N] {
    row[column..column + N].try_into().expect("the block lies inside the row")
}

/// Limits `v` to `low..=high`. NaN stays NaN.
#[inline(always)]
pub(super) fn clamp(v: f32, low: f32, high: f32) -> f32 {
    let v = if v < low { low } else { v };
    if v > high { high } else { v }
}
