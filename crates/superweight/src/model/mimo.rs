//! Inputs and outputs of MIMO networks, which classify several images in one pass.
//!
//! Havasi et al., *Training independent subnetworks for robust prediction*, 2021. The images of all
//! heads are concatenated as channels:
//!
//! ```text
//! training:   one image per head       ─► channels ─► network ─► logits per head ─► Σ losses
//! prediction: one image for all heads  ─► channels ─► network ─► mean of the heads' probabilities
//! ```
//!
//! Outside of this module a MIMO network is one member with one output. The logits of that output
//! are the logarithms of the mean probabilities of the heads.

use crate::probability::softmax;

/// Concatenates groups of `heads` consecutive NHWC images along their channels, one group per row.
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

/// Concatenates every NHWC image with itself along the channels, `heads` times.
pub(crate) fn repeated(images: &[f32], channels: usize, heads: usize) -> Vec<f32> {
    let mut rows = Vec::with_capacity(heads * images.len());
    for pixel in images.chunks_exact(channels) {
        (0..heads).for_each(|_| rows.extend_from_slice(pixel));
    }
    rows
}

/// Turns rows of all heads' logits into rows of the logarithm of the heads' mean probability.
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
        // The clamp keeps the logarithm finite where all probabilities underflow to zero.
        mean.into_iter().map(|p: f64| p.max(f64::MIN_POSITIVE).ln() as f32).collect()
    };
    logits.chunks_exact(heads * classes).flat_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_a_row_are_concatenated_pixel_by_pixel() {
        // Two pixels of two channels: the values of image i are 10i, 10i + 1, 10i + 2, 10i + 3.
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
    fn heads_are_averaged_as_probabilities() {
        // Probabilities 3/4 and 1/2 have the mean 5/8.
        let logits = vec![3f32.ln(), 0.0, 1.0, 1.0, 1000.0, 0.0, 1000.0, 0.0];
        let mixed = log_mean_probability(logits.clone(), 2, 2);
        assert!((mixed[0].exp() - 0.625).abs() < 1e-6 && (mixed[1].exp() - 0.375).abs() < 1e-6);
        assert!(mixed[2] == 0.0 && mixed[3].is_finite() && mixed[3] < -600.0, "{mixed:?}");
        assert_eq!(log_mean_probability(logits.clone(), 2, 1), logits);
    }
}
