//! Random inputs, and the median of measured times.

use crate::rng::Draws;

/// Returns `len` uniform values in [−1, 1).
pub(super) fn noise(seed: u64, len: usize) -> Vec<f32> {
    let draws = Draws::new(&[seed]);
    (0..len as u64).map(|n| draws.signed_unit(n) as f32).collect()
}

/// Median of sorted values.
///
/// # Panics
/// If there are none.
pub(super) fn median(sorted: &[f64]) -> f64 {
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
}
