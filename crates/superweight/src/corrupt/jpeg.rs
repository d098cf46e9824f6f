//! The loss of JPEG compression for a 32×32 image, without a file: color conversion, 4:2:0
//! subsampling, cosine transform, rounding, and the inverse of each.
//!
//! Coding of the coefficients is lossless and left out. The integer transforms of libjpeg ("islow")
//! and its triangular upsampling are repeated exactly. A coefficient that rounds the other way
//! changes a block by far more than 2/255, so a crate with other transforms cannot be used.

use super::grid::SIDE;
use super::kind::Severity;

/// Side of a subsampled plane.
const HALF: usize = SIDE / 2;

/// Quantization table for luminance of Annex K of the standard, row by row.
const LUMINANCE: [i32; 64] = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113,
    92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
];
/// Quantization table for chrominance.
const CHROMINANCE: [i32; 64] = [
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
];

/// Compresses and decompresses an image.
pub(super) fn compress(image: &[u8], severity: Severity) -> Vec<u8> {
    let quality: i32 = severity.of([80, 65, 58, 50, 40]);
    let percent = if quality < 50 { 5000 / quality } else { 200 - 2 * quality };
    let table = |base: [i32; 64]| base.map(|q| ((q * percent + 50) / 100).clamp(1, 255));
    let [y, cb, cr] = to_ycc(image);
    let y = through(&y, SIDE, &table(LUMINANCE));
    let [cb, cr] = [cb, cr].map(|plane| grow(&through(&shrink(&plane), HALF, &table(CHROMINANCE))));
    to_rgb(&y, &cb, &cr)
}

/// One half in 16-bit fixed point.
const ROUND: i32 = 1 << 15;

/// RGB to planes of luminance and chrominance.
fn to_ycc(image: &[u8]) -> [Vec<i32>; 3] {
    let plane = |weights: [i32; 3], offset: i32| {
        let value = |rgb: &[u8]| {
            let sum: i32 = weights.iter().zip(rgb).map(|(w, &v)| w * i32::from(v)).sum();
            (sum + offset) >> 16
        };
        image.chunks_exact(3).map(value).collect()
    };
    let middle = (128 << 16) + ROUND - 1;
    [
        plane([19595, 38470, 7471], ROUND),
        plane([-11059, -21709, 32768], middle),
        plane([32768, -27439, -5329], middle),
    ]
}

/// Planes of luminance and chrominance to RGB.
fn to_rgb(y: &[i32], cb: &[i32], cr: &[i32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(3 * y.len());
    for ((&y, &cb), &cr) in y.iter().zip(cb).zip(cr) {
        let (cb, cr) = (cb - 128, cr - 128);
        let red = y + ((91881 * cr + ROUND) >> 16);
        let green = y + ((-22554 * cb - 46802 * cr + ROUND) >> 16);
        let blue = y + ((116130 * cb + ROUND) >> 16);
        out.extend([red, green, blue].map(|v| v.clamp(0, 255) as u8));
    }
    out
}

/// Subsampling: means of four pixels, rounded down and up alternately.
fn shrink(plane: &[i32]) -> Vec<i32> {
    let places = (0..HALF).flat_map(|row| (0..HALF).map(move |col| (row, col)));
    let mean = |(row, col): (usize, usize)| {
        let at = |r: usize, c: usize| plane[(2 * row + r) * SIDE + 2 * col + c];
        (at(0, 0) + at(0, 1) + at(1, 0) + at(1, 1) + 1 + (col % 2) as i32) >> 2
    };
    places.map(mean).collect()
}

/// Upsampling: each new pixel is 9/16 of the nearest old one, 3/16 of two, and 1/16 of the diagonal
/// one.
fn grow(plane: &[i32]) -> Vec<i32> {
    let mut out = vec![0; SIDE * SIDE];
    for row in 0..SIDE {
        let near = row / 2;
        let next = if row % 2 == 0 { near.saturating_sub(1) } else { (near + 1).min(HALF - 1) };
        let sum = |col: usize| 3 * plane[near * HALF + col] + plane[next * HALF + col];
        for col in 0..HALF {
            let (left, right) = (col.saturating_sub(1), (col + 1).min(HALF - 1));
            out[row * SIDE + 2 * col] = (3 * sum(col) + sum(left) + 8) >> 4;
            out[row * SIDE + 2 * col + 1] = (3 * sum(col) + sum(right) + 7) >> 4;
        }
    }
    out
}

/// Transforms every 8×8 block, quantizes it by the table, and transforms it back.
fn through(plane: &[i32], side: usize, table: &[i32; 64]) -> Vec<i32> {
    let mut out = vec![0; side * side];
    for (top, left) in
        (0..side).step_by(8).flat_map(|top| (0..side).step_by(8).map(move |left| (top, left)))
    {
        let mut block = [0; 64];
        for (i, v) in block.iter_mut().enumerate() {
            *v = plane[(top + i / 8) * side + left + i % 8] - 128;
        }
        forward(&mut block);
        for (v, &q) in block.iter_mut().zip(table) {
            // The transform scales by 8.
            let divisor = 8 * q;
            *v = v.signum() * ((v.abs() + divisor / 2) / divisor) * q;
        }
        backward(&mut block);
        for (i, v) in block.iter().enumerate() {
            out[(top + i / 8) * side + left + i % 8] = (v + 128).clamp(0, 255);
        }
    }
    out
}

/// Fractional bits of the constants.
const CONST_BITS: u32 = 13;
/// Additional bits between the two passes.
const PASS_BITS: u32 = 2;

/// Divides by a power of two, rounded.
fn descale(v: i32, bits: u32) -> i32 {
    (v + (1 << (bits - 1))) >> bits
}

/// Rotations of the odd part, which both directions share.
fn odd_part(t: [i32; 4]) -> [i32; 4] {
    let [t0, t1, t2, t3] = t;
    let z5 = (t0 + t2 + t1 + t3) * 9633;
    let (z1, z2) = (-(t0 + t3) * 7373, -(t1 + t2) * 20995);
    let (z3, z4) = (-(t0 + t2) * 16069 + z5, -(t1 + t3) * 3196 + z5);
    [t0 * 2446 + z1 + z3, t1 * 16819 + z2 + z4, t2 * 25172 + z2 + z3, t3 * 12299 + z1 + z4]
}

/// Forward cosine transform of a block, scaled by 8.
fn forward(block: &mut [i32; 64]) {
    for pass in 0..2 {
        let (line, step) = if pass == 0 { (8, 1) } else { (1, 8) };
        let bits = if pass == 0 { CONST_BITS - PASS_BITS } else { CONST_BITS + PASS_BITS };
        for i in 0..8 {
            let d: [i32; 8] = std::array::from_fn(|k| block[i * line + k * step]);
            let sums: [i32; 4] = std::array::from_fn(|k| d[k] + d[7 - k]);
            let (a, b) = (sums[0] + sums[3], sums[1] + sums[2]);
            let (c, e) = (sums[0] - sums[3], sums[1] - sums[2]);
            let even = |v: i32| if pass == 0 { v << PASS_BITS } else { descale(v, PASS_BITS) };
            let z = (c + e) * 4433;
            let odd = odd_part([d[3] - d[4], d[2] - d[5], d[1] - d[6], d[0] - d[7]]);
            let out = [
                even(a + b),
                descale(odd[3], bits),
                descale(z + c * 6270, bits),
                descale(odd[2], bits),
                even(a - b),
                descale(odd[1], bits),
                descale(z - e * 15137, bits),
                descale(odd[0], bits),
            ];
            (0..8).for_each(|k| block[i * line + k * step] = out[k]);
        }
    }
}

/// Inverse cosine transform of a block.
fn backward(block: &mut [i32; 64]) {
    for pass in 0..2 {
        let (line, step) = if pass == 0 { (1, 8) } else { (8, 1) };
        let bits = if pass == 0 { CONST_BITS - PASS_BITS } else { CONST_BITS + PASS_BITS + 3 };
        for i in 0..8 {
            let d: [i32; 8] = std::array::from_fn(|k| block[i * line + k * step]);
            let z = (d[2] + d[6]) * 4433;
            let (low, high) = (z - d[6] * 15137, z + d[2] * 6270);
            let (sum, difference) = ((d[0] + d[4]) << CONST_BITS, (d[0] - d[4]) << CONST_BITS);
            let even = [sum + high, difference + low, difference - low, sum - high];
            let odd = odd_part([d[7], d[5], d[3], d[1]]);
            for k in 0..4 {
                block[i * line + k * step] = descale(even[k] + odd[3 - k], bits);
                block[i * line + (7 - k) * step] = descale(even[k] - odd[3 - k], bits);
            }
        }
    }
}
