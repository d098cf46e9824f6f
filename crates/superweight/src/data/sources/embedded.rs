//! 10,000 images of Fashion-MNIST inside the program (feature `embedded-data`), so that the first
//! command needs no download.
//!
//! These are the first 800 training and 200 test images of every class, in their original order.
//! The file is a gzip (3.9 MB) of 10,000 label bytes and of every pixel minus its PNG "Paeth"
//! prediction. `tools/embed-fashion-mnist.py` creates it; the license of the images (MIT) is beside
//! it.

use std::io::Read;

use crate::data::images::Images;

/// The compressed labels and predictions.
static PACKED: &[u8] = include_bytes!("embedded/fashion-mnist-10k.gz");
const SIDE: usize = 28;
const TRAIN: usize = 8_000;
const TOTAL: usize = 10_000;

/// Decompresses the training and the test images.
pub fn fashion_mnist_10k() -> [Images; 2] {
    let mut bytes = Vec::with_capacity(TOTAL * (1 + SIDE * SIDE));
    flate2::read::GzDecoder::new(PACKED)
        .read_to_end(&mut bytes)
        .expect("the embedded file is whole");
    let mut pixels = bytes.split_off(TOTAL);
    pixels.chunks_exact_mut(SIDE * SIDE).for_each(undo_prediction);
    let mut labels: Vec<u16> = bytes.into_iter().map(u16::from).collect();
    let test = Images {
        pixels: pixels.split_off(TRAIN * SIDE * SIDE).into(),
        labels: labels.split_off(TRAIN),
    };
    [Images { pixels: pixels.into(), labels }, test]
}

/// Adds the Paeth prediction to every pixel, in order.
fn undo_prediction(image: &mut [u8]) {
    for y in 0..SIDE {
        for x in 0..SIDE {
            let at = |dy: usize, dx: usize| {
                if y < dy || x < dx { 0 } else { i32::from(image[(y - dy) * SIDE + x - dx]) }
            };
            let prediction = paeth(at(0, 1), at(1, 0), at(1, 1));
            image[y * SIDE + x] = image[y * SIDE + x].wrapping_add(prediction as u8);
        }
    }
}

/// The neighbor nearest to left + up − corner; ties in the order left, up, corner.
fn paeth(left: i32, up: i32, corner: i32) -> i32 {
    let guess = left + up - corner;
    let [to_left, to_up, to_corner] = [left, up, corner].map(|value| (guess - value).abs());
    match () {
        () if to_left <= to_up && to_left <= to_corner => left,
        () if to_up <= to_corner => up,
        () => corner,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::sources::catalog::find;
    use crate::data::sources::verify::hex_sha256;

    /// The script that creates the file prints this digest.
    #[test]
    fn the_file_decodes_to_the_original_images() {
        let [train, test] = fashion_mnist_10k();
        let labels = train.labels.iter().chain(&test.labels).map(|&label| label as u8);
        let bytes: Vec<u8> =
            labels.chain(train.pixels.iter().chain(&test.pixels[..]).copied()).collect();
        assert_eq!(
            hex_sha256(&[&bytes]),
            "feb6dc3d989236903278a682c2de0479f31e29d320ea1290a0d3ccdaafc9bfe2"
        );
        for (images, per_class) in [(&train, 800), (&test, 200)] {
            for class in 0..10 {
                assert_eq!(
                    images.labels.iter().filter(|&&label| label == class).count(),
                    per_class
                );
            }
        }
    }

    #[test]
    fn mean_and_std_equal_those_in_the_catalog() {
        let [Images { pixels, .. }, _] = fashion_mnist_10k();
        let n = pixels.len() as f64;
        let sum: u64 = pixels.iter().map(|&v| u64::from(v)).sum();
        let squares: u64 = pixels.iter().map(|&v| u64::from(v).pow(2)).sum();
        let mean = sum as f64 / n;
        let std = (squares as f64 / n - mean * mean).sqrt();
        let pinned = &find("fashion-mnist-10k").unwrap().normalization;
        assert!((mean - f64::from(pinned.mean[0])).abs() < 1e-4, "{mean}");
        assert!((std - f64::from(pinned.std[0])).abs() < 1e-4, "{std}");
    }
}
