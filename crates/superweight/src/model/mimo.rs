//! Networks that answer several images at once, and are asked with one several times (MIMO: Havasi et al., Training independent
//! subnetworks for robust prediction, 2021).
//!
//! ```text
//! training:  other images for every head ─► side by side, as channels ─► one network ─► logits of every head ─► Σ losses
//! answering: one image for all heads     ─► side by side ─► one network ─► mean of the heads' probabilities
//! ```
//!
//! To everyone else such a network is one member: its logits are the logarithms of what its heads' probabilities are on average.

use crate::probability::softmax;

/// Images one after another, pixel by pixel, to rows of so many side by side.
pub(crate) fn side_by_side(
    images: &[f32],
    image_len: usize,
    channels: usize,
    heads: usize,
) -> Vec<f32> {
    let mut rows = vec![0.0; images.len()];
    for (images, row) in
        images.chunks_exact(heads * image_len).zip(rows.chunks_exact_mut(heads * image_len))
    {
        for (head, image) in images.chunks_exact(image_len).enumerate() {
            let pixels = row.chunks_exact_mut(heads * channels).zip(image.chunks_exact(channels));
            pixels
                .for_each(|(row, pixel)| row[head * channels..][..channels].copy_from_slice(pixel));
        }
    }
    rows
}

/// The same with every image as often as there are heads.
pub(crate) fn repeated(images: &[f32], channels: usize, heads: usize) -> Vec<f32> {
    let mut rows = Vec::with_capacity(heads * images.len());
    for pixel in images.chunks_exact(channels) {
        (0..heads).for_each(|_| rows.extend_from_slice(pixel));
    }
    rows
}

/// Logits of all heads, row by row, to the logarithms of the mean of their probabilities.
pub(crate) fn log_mean_probability(logits: Vec<f32>, classes: usize, heads: usize) -> Vec<f32> {
    if heads == 1 {
        return logits;
    }
    let mut one = vec![0.0; classes];
    let row = |row: &[f32]| -> Vec<f32> {
        let mut mean = vec![0.0; classes];
        for head in row.chunks_exact(classes) {
            softmax(head, &mut one);
            mean.iter_mut().zip(&one).for_each(|(mean, p)| *mean += p / heads as f64);
        }
        // A probability too small for f64 is no infinity in 32 bits.
        mean.into_iter().map(|p: f64| p.max(f64::MIN_POSITIVE).ln() as f32).collect()
    };
    logits.chunks_exact(heads * classes).flat_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_images() {
        // Two pixels of two channels: image i has i0 i1, i2 i3.
        let images: Vec<f32> =
            (0..4).flat_map(|i| (0..4).map(move |n| (10 * i + n) as f32)).collect();
        let rows = side_by_side(&images, 4, 2, 2);
        assert_eq!(rows[..8], [0.0, 1.0, 10.0, 11.0, 2.0, 3.0, 12.0, 13.0]);
        assert_eq!(rows[8..], [20.0, 21.0, 30.0, 31.0, 22.0, 23.0, 32.0, 33.0]);
        assert_eq!(side_by_side(&images, 4, 2, 1), images);
        let twice = [&images[..4], &images[..4]].concat();
        assert_eq!(repeated(&images[..4], 2, 2), side_by_side(&twice, 4, 2, 2));
    }

    #[test]
    fn a_mixture_is_of_probabilities() {
        // Odds of 3 to 1 and of 1 to 1: 5/8.
        let logits = vec![3f32.ln(), 0.0, 1.0, 1.0, 1000.0, 0.0, 1000.0, 0.0];
        let mixed = log_mean_probability(logits.clone(), 2, 2);
        assert!((mixed[0].exp() - 0.625).abs() < 1e-6 && (mixed[1].exp() - 0.375).abs() < 1e-6);
        assert!(mixed[2] == 0.0 && mixed[3].is_finite() && mixed[3] < -600.0, "{mixed:?}");
        assert_eq!(log_mean_probability(logits.clone(), 2, 1), logits);
    }
}
