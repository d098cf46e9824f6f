//! Scores of predicted probabilities against labels.
//!
//! | score | definition |
//! |---|---|
//! | top-k | share of images whose label has a [`rank`] below k |
//! | NLL | mean of −ln p(label); for an ensemble, p is the mean over its members |
//! | ECE | Σ over bins of (share of images)·\|accuracy − mean confidence\|, 15 equal bins of the top probability |
//! | diversity | share of images on which two members disagree, over the error of one; mean over ordered pairs |
//!
//! A bin is `(i/n, (i+1)/n]`; the first one includes 0. A confidence on an edge therefore counts in
//! the bin below it, as in Guo et al. (2017), and a confidence of 1 needs no special case. Sums are
//! in f64: a sum over 10,000 images has to be exact to 1e-6.

use serde::{Deserialize, Serialize};

use crate::probability::rank;

/// Number of bins of the expected calibration error and of reliability diagrams.
pub const ECE_BINS: usize = 15;

/// Scores of one network or ensemble on one set of images, as shares between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Scores {
    /// Number of images.
    pub images: u64,
    /// Share of images whose most probable class is the label.
    pub top1: f64,
    /// Share of images whose label is among the five most probable classes.
    pub top5: f64,
    /// Mean negative log-likelihood.
    pub nll: f64,
    /// Expected calibration error.
    pub ece: f64,
}

/// One bin of a reliability diagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Number of images whose confidence falls into the bin.
    pub images: u64,
    /// Number of images in the bin that are classified correctly.
    pub correct: u64,
    /// Sum of the confidences of the images in the bin.
    pub confidence: f64,
}

impl Bin {
    /// Mean confidence and accuracy, as shares; none for an empty bin.
    pub fn means(&self) -> Option<(f64, f64)> {
        let images = self.images as f64;
        (self.images > 0).then(|| (self.confidence / images, self.correct as f64 / images))
    }
}

/// Running counts from which all scores follow. Images are added one by one, so that memory does
/// not grow with the number of images.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    correct: u64,
    among_five: u64,
    nll: f64,
    bins: Vec<Bin>,
}

impl Default for Tally {
    fn default() -> Self {
        Self::new(ECE_BINS)
    }
}

impl Tally {
    /// Counts of no images, with this number of equal bins of confidence.
    ///
    /// # Panics
    /// If `bins` is 0.
    pub fn new(bins: usize) -> Self {
        assert!(bins > 0, "a calibration error needs at least one bin");
        Self { correct: 0, among_five: 0, nll: 0.0, bins: vec![Bin::default(); bins] }
    }

    /// Adds one image: the probability of every class, and its label.
    ///
    /// # Panics
    /// If the label is not a class.
    pub fn add(&mut self, probabilities: &[f64], label: usize) {
        let rank = rank(probabilities, label);
        let confidence = probabilities.iter().copied().fold(0.0, f64::max);
        self.correct += u64::from(rank == 0);
        self.among_five += u64::from(rank < 5);
        // A probability that underflows f64 would make the NLL infinite.
        self.nll -= probabilities[label].max(f64::MIN_POSITIVE).ln();
        let bins = self.bins.len();
        let bin = &mut self.bins[bin_of(confidence, bins)];
        bin.images += 1;
        bin.correct += u64::from(rank == 0);
        bin.confidence += confidence;
    }

    /// The scores of the images added so far; NaN if there are none.
    pub fn scores(&self) -> Scores {
        let images: u64 = self.bins.iter().map(|bin| bin.images).sum();
        let count = images as f64;
        let gap = |bin: &Bin| (bin.correct as f64 - bin.confidence).abs();
        Scores {
            images,
            top1: self.correct as f64 / count,
            top5: self.among_five as f64 / count,
            nll: self.nll / count,
            ece: self.bins.iter().map(gap).sum::<f64>() / count,
        }
    }

    /// The bins of the reliability diagram, from confidence 0 to 1.
    pub fn reliability(&self) -> &[Bin] {
        &self.bins
    }
}

/// Index of the first bin whose upper edge is not below the confidence.
fn bin_of(confidence: f64, bins: usize) -> usize {
    let near = ((confidence * bins as f64) as usize).min(bins - 1);
    // The product is rounded, so the neighbouring edges decide.
    let edge = |bin: usize| bin as f64 / bins as f64;
    match near {
        bin if bin > 0 && confidence <= edge(bin) => bin - 1,
        bin if bin + 1 < bins && confidence > edge(bin + 1) => bin + 1,
        bin => bin,
    }
}

/// Diversity of members, from the class that each member predicts for each image. None with fewer
/// than two members, or if a member makes no error, because the ratio is undefined there.
///
/// ```
/// use superweight::evaluate::diversity;
/// // They disagree on one image of four; one errs on two, the other on one: (1/2 + 1/1) / 2.
/// let (a, b, labels) = ([0, 0, 1, 1], [0, 0, 2, 1], [0, 0, 2, 2]);
/// assert_eq!(diversity(&[&a, &b], &labels), Some(0.75));
/// ```
pub fn diversity(members: &[&[u16]], labels: &[u16]) -> Option<f64> {
    let differing = |a: &[u16], b: &[u16]| a.iter().zip(b).filter(|(a, b)| a != b).count() as f64;
    let (mut sum, mut pairs) = (0.0, 0);
    for (i, a) in members.iter().enumerate() {
        let errors = differing(a, labels);
        for (_, b) in members.iter().enumerate().filter(|&(j, _)| j != i) {
            if errors == 0.0 {
                return None;
            }
            sum += differing(a, b) / errors;
            pairs += 1;
        }
    }
    (pairs > 0).then(|| sum / f64::from(pairs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(images: &[(&[f64], usize)], bins: usize) -> Tally {
        let mut tally = Tally::new(bins);
        images.iter().for_each(|(probabilities, label)| tally.add(probabilities, *label));
        tally
    }

    #[test]
    fn confident_correct_predictions_have_perfect_scores() {
        let scores = tally(&[(&[1.0, 0.0], 0), (&[0.0, 1.0], 1)], ECE_BINS).scores();
        assert_eq!(scores, Scores { images: 2, top1: 1.0, top5: 1.0, nll: 0.0, ece: 0.0 });
    }

    #[test]
    fn confident_wrong_predictions_have_finite_worst_scores() {
        let scores = tally(&[(&[1.0, 0.0], 1), (&[0.0, 1.0], 0)], ECE_BINS).scores();
        assert_eq!((scores.top1, scores.top5, scores.ece), (0.0, 1.0, 1.0));
        assert!(scores.nll.is_finite() && scores.nll > 700.0);
    }

    /// 1/4, 1/2 and 3/4 are exact in f64: each is the last of its bin, and the next f64 is the
    /// first of the next bin.
    #[test]
    fn a_confidence_on_an_edge_counts_in_the_bin_below() {
        for (confidence, bin) in [(0.25, 0), (0.5, 1), (0.75, 2), (1.0, 3), (0.0, 0)] {
            assert_eq!(bin_of(confidence, 4), bin, "{confidence}");
        }
        assert_eq!(bin_of(f64::from_bits(0.25f64.to_bits() + 1), 4), 1);
        // i/15 is not exact in f64; the edge is the nearest f64, and there is none between them.
        for i in 1..ECE_BINS {
            let edge = i as f64 / ECE_BINS as f64;
            assert_eq!(bin_of(edge, ECE_BINS), i - 1);
            assert_eq!(bin_of(f64::from_bits(edge.to_bits() + 1), ECE_BINS), i);
        }
    }

    #[test]
    fn among_equal_probabilities_the_first_class_counts() {
        let even: &[f64] = &[0.125; 8];
        let scores = |label| tally(&[(even, label)], ECE_BINS).scores();
        assert_eq!((scores(0).top1, scores(1).top1), (1.0, 0.0));
        assert_eq!((scores(4).top5, scores(5).top5), (1.0, 0.0));
    }

    #[test]
    fn diversity_needs_two_members_with_errors() {
        assert_eq!(diversity(&[&[0, 1]], &[0, 0]), None);
        assert_eq!(diversity(&[&[0, 1], &[0, 0]], &[0, 0]), None);
        assert_eq!(diversity(&[&[0, 1], &[0, 1]], &[0, 0]), Some(0.0));
    }
}
