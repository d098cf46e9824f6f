//! The order of images in an epoch: a Fisher–Yates shuffle whose draws are a function of
//! (seed, phase, epoch, position).
//!
//! The host shuffles for every device (0.2 ms for 45,000 images on one core), so all receive the
//! same batches.

use super::random::{Counter, Phase, Stream};

/// Fills `order` with a permutation of `images`. Does not allocate once `order` has the capacity.
pub fn epoch_order(images: &[u32], seed: u64, phase: Phase, epoch: u64, order: &mut Vec<u32>) {
    order.clear();
    order.extend_from_slice(images);
    Counter::new(seed, phase, epoch).shuffle(order, 0, Stream::Order);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(images: &[u32], seed: u64, phase: Phase, epoch: u64) -> Vec<u32> {
        let mut order = vec![9; 3]; // earlier contents are replaced
        epoch_order(images, seed, phase, epoch, &mut order);
        order
    }

    #[test]
    fn the_order_is_a_permutation_that_depends_on_its_key_only() {
        for n in [0, 1, 2, 3, 128, 1000] {
            let images: Vec<u32> = (0..n).map(|i| 7 * i + 3).collect();
            let one = order(&images, 1, Phase::Train, 4);
            let mut sorted = one.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, images);
            assert_eq!(one, order(&images, 1, Phase::Train, 4));
            if n > 100 {
                for other in [(2, Phase::Train, 4), (1, Phase::Search, 4), (1, Phase::Train, 5)] {
                    assert_ne!(one, order(&images, other.0, other.1, other.2));
                }
            }
        }
    }

    /// All 24 orders of four images are equally likely: χ² with 23 degrees of freedom is below 65
    /// (p = 6e-6).
    #[test]
    fn every_order_is_equally_likely() {
        let mut counts = std::collections::HashMap::new();
        for epoch in 0..24_000 {
            *counts.entry(order(&[0, 1, 2, 3], 5, Phase::Train, epoch)).or_insert(0f64) += 1.0;
        }
        assert_eq!(counts.len(), 24);
        let chi2: f64 = counts.values().map(|n| (n - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi2 < 65.0, "{chi2}");
    }
}
