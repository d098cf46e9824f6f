//! Random numbers for data as a function of (seed, phase, epoch, image, stream), on the mixer of
//! [`crate::rng`].
//!
//! Draws can be made at any time, on any thread or device, in any order; a resumed run needs no
//! saved generator.

use crate::rng::Draws;

/// Purpose of the draws. Search and training have orders of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Phase {
    /// Drawing validation images or test images.
    Split = 0,
    /// Training that decides what layers share.
    Search = 1,
    /// Training of the final members.
    Train = 2,
}

/// Quantity that is drawn for an image or position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Stream {
    /// Position in the order of an epoch, or in a split.
    Order = 0,
    /// Row of the shift or crop.
    CropY = 1,
    /// Column of the shift or crop.
    CropX = 2,
    /// Whether the image is flipped.
    Flip = 3,
    /// Row of the center of the cutout.
    CutoutY = 4,
    /// Column of the center of the cutout.
    CutoutX = 5,
    /// Area of the crop that is resized.
    Area = 6,
    /// Aspect ratio of the crop that is resized.
    Ratio = 7,
    /// Order in which members train (`train.members_per_step`).
    Turn = 8,
    /// Order of a batch for one head of a network with several (`train.batch_repetitions`).
    Head = 9,
}

/// All draws of one seed, phase and epoch.
///
/// ```
/// use superweight::data::{Counter, Phase, Stream};
/// let epoch = Counter::new(7, Phase::Train, 3);
/// assert_eq!(epoch.draw(41, Stream::Flip), epoch.draw(41, Stream::Flip));
/// assert!(epoch.below(41, Stream::CropX, 9) < 9);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter(Draws);

impl Counter {
    /// Draws of an epoch of a phase.
    pub fn new(seed: u64, phase: Phase, epoch: u64) -> Self {
        Self(Draws::new(&[seed, phase as u64, epoch]))
    }

    /// Draws 64 uniform bits for an image or position.
    pub fn draw(self, index: u64, stream: Stream) -> u64 {
        self.0.under(stream as u64).bits(index)
    }

    /// Draws uniformly from `0..n`: the high half of a product, which deviates by at most n/2⁶⁴.
    pub fn below(self, index: u64, stream: Stream, n: u64) -> u64 {
        ((u128::from(self.draw(index, stream)) * u128::from(n)) >> 64) as u64
    }

    /// Shuffles `items` (Fisher–Yates) with one draw each, from index `first` on.
    pub fn shuffle<T>(self, items: &mut [T], first: u64, stream: Stream) {
        for i in (1..items.len()).rev() {
            let j = self.below(first + i as u64, stream, i as u64 + 1);
            items.swap(i, j as usize);
        }
    }

    /// Draws uniformly from [0, 1), another number for every attempt.
    pub fn unit(self, index: u64, stream: Stream, attempt: u64) -> f64 {
        let bits = self.0.under(stream as u64).under(index).bits(attempt);
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const STREAMS: [Stream; 10] = [
        Stream::Order,
        Stream::CropY,
        Stream::CropX,
        Stream::Flip,
        Stream::CutoutY,
        Stream::CutoutX,
        Stream::Area,
        Stream::Ratio,
        Stream::Turn,
        Stream::Head,
    ];

    /// A change of these values changes every run. Ten lines of Python with unbounded integers give
    /// the same three.
    #[test]
    fn draws_are_pinned() {
        let counter = Counter::new(1, Phase::Train, 2);
        let draws = [(0, Stream::Order), (1, Stream::Order), (0, Stream::Flip)]
            .map(|(i, s)| counter.draw(i, s));
        assert_eq!(
            draws,
            [15_302_403_297_843_544_799, 12_471_999_170_140_496_822, 10_726_201_947_016_141_815]
        );
    }

    #[test]
    fn every_word_of_the_key_changes_the_draws() {
        let mut seen = HashSet::new();
        for seed in 0..6 {
            for phase in [Phase::Split, Phase::Search, Phase::Train] {
                for epoch in 0..6 {
                    for stream in STREAMS {
                        for index in 0..100 {
                            seen.insert(Counter::new(seed, phase, epoch).draw(index, stream));
                        }
                    }
                }
            }
        }
        assert_eq!(seen.len(), 6 * 3 * 6 * STREAMS.len() * 100);
    }

    /// χ² with 8 degrees of freedom stays below 35 (p = 3e-5) for every stream, along images and
    /// along epochs.
    #[test]
    fn uniform_along_images_and_epochs() {
        for stream in STREAMS {
            let along_images: Vec<_> =
                (0..9000).map(|i| Counter::new(3, Phase::Train, 5).below(i, stream, 9)).collect();
            let along_epochs: Vec<_> =
                (0..9000).map(|e| Counter::new(3, Phase::Train, e).below(5, stream, 9)).collect();
            for draws in [along_images, along_epochs] {
                let mut counts = [0f64; 9];
                draws.iter().for_each(|&d| counts[d as usize] += 1.0);
                let chi2: f64 = counts.iter().map(|n| (n - 1000.0).powi(2) / 1000.0).sum();
                assert!(chi2 < 35.0, "{stream:?}: {chi2}");
            }
        }
    }

    /// Draws of neighboring keys agree in half of their bits, within 5 standard deviations over
    /// 64 × 4096 bits.
    #[test]
    fn neighboring_keys_are_independent() {
        let counter = Counter::new(0, Phase::Train, 0);
        let mut same = [0u32; 3];
        for i in 0..4096 {
            let here = counter.draw(i, Stream::CropX);
            let others = [
                counter.draw(i + 1, Stream::CropX),
                counter.draw(i, Stream::CropY),
                Counter::new(0, Phase::Train, 1).draw(i, Stream::CropX),
            ];
            for (same, other) in same.iter_mut().zip(others) {
                *same += (here ^ other).count_zeros();
            }
        }
        let (mean, deviation) = (32.0 * 4096.0, (64.0 * 4096.0f64).sqrt() / 2.0);
        for n in same {
            assert!((f64::from(n) - mean).abs() < 5.0 * deviation, "{n} of {}", 64 * 4096);
        }
    }
}
