//! Scores of probabilities against labels.
//!
//! | score | is |
//! |---|---|
//! | top-k | share of images whose label has fewer than k classes before it (larger, or equal with a smaller number) |
//! | NLL | mean of −ln p(label); of an ensemble: p is the mean over its members |
//! | ECE | Σ over bins of (share of images)·\|accuracy − mean confidence\|, 15 equal bins of the top probability |
//! | diversity | share of images on which two members disagree, over the error of one; mean over ordered pairs |
//!
//! Bins are `(i/n, (i+1)/n]`, the first with 0: a confidence on an edge belongs below it, as in Guo et al. (2017), so
//! that a confidence of 1 needs no special case. In f64 throughout: a sum over 10,000 images has to be right to 1e-6.

use serde::{Deserialize, Deserializer, Serialize};

/// Bins of the expected calibration error, and of reliability diagrams.
pub const ECE_BINS: usize = 15;

/// Scores of one network or ensemble on one set of images.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// How many were seen.
    pub images: u64,
    /// Share of images whose most probable class is right.
    pub top1: f64,
    /// Share of images whose class is among the five most probable.
    pub top5: f64,
    /// Mean negative log-likelihood.
    pub nll: f64,
    /// Expected calibration error.
    pub ece: f64,
}

/// One bar of a reliability diagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Images whose confidence lies in it.
    pub images: u64,
    /// Those among them whose most probable class is right.
    pub correct: u64,
    /// Sum of their confidences.
    pub confidence: f64,
}

impl Bin {
    /// Mean confidence and accuracy; none for an empty bin.
    pub fn means(&self) -> Option<(f64, f64)> {
        let images = self.images as f64;
        (self.images > 0).then(|| (self.confidence / images, self.correct as f64 / images))
    }
}

/// A number, or NaN where JSON has `null`.
pub(super) fn or_nan<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// Counts from which all scores follow. Images are added one by one, so that nothing but counts is kept per ensemble.
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
    /// Nothing seen yet; confidences fall into `bins` equal bins.
    pub fn new(bins: usize) -> Self {
        assert!(bins > 0, "a calibration error needs at least one bin");
        Self { correct: 0, among_five: 0, nll: 0.0, bins: vec![Bin::default(); bins] }
    }

    /// Adds an image: the probability of every class, and the class it is of.
    ///
    /// # Panics
    /// Where the label is not a class.
    pub fn add(&mut self, probabilities: &[f64], label: usize) {
        let of_label = probabilities[label];
        let before = |(class, &p): (usize, &f64)| p > of_label || (p == of_label && class < label);
        let rank = probabilities.iter().enumerate().filter(|&it| before(it)).count();
        let confidence = probabilities.iter().copied().fold(0.0, f64::max);
        self.correct += u64::from(rank == 0);
        self.among_five += u64::from(rank < 5);
        self.nll -= of_label.max(f64::MIN_POSITIVE).ln();
        let bins = self.bins.len();
        let bin = &mut self.bins[bin_of(confidence, bins)];
        bin.images += 1;
        bin.correct += u64::from(rank == 0);
        bin.confidence += confidence;
    }

    /// The scores so far; NaN where no image was added.
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

    /// The bars of the reliability diagram, from confidence 0 to 1.
    pub fn reliability(&self) -> &[Bin] {
        &self.bins
    }
}

/// The bin whose upper edge is the first that is not below the confidence.
fn bin_of(confidence: f64, bins: usize) -> usize {
    let near = ((confidence * bins as f64) as usize).min(bins - 1);
    // The product rounds; the comparison with the edges decides.
    let edge = |bin: usize| bin as f64 / bins as f64;
    match near {
        bin if bin > 0 && confidence <= edge(bin) => bin - 1,
        bin if bin + 1 < bins && confidence > edge(bin + 1) => bin + 1,
        bin => bin,
    }
}

/// Diversity of members from the class each gave each image. None with fewer than two members, and where a member
/// made no error: the ratio has no value there.
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
    fn all_right_and_sure_is_perfect() {
        let scores = tally(&[(&[1.0, 0.0], 0), (&[0.0, 1.0], 1)], ECE_BINS).scores();
        assert_eq!(scores, Scores { images: 2, top1: 1.0, top5: 1.0, nll: 0.0, ece: 0.0 });
    }

    #[test]
    fn all_wrong_and_sure_is_finite_and_as_bad_as_can_be() {
        let scores = tally(&[(&[1.0, 0.0], 1), (&[0.0, 1.0], 0)], ECE_BINS).scores();
        assert_eq!((scores.top1, scores.top5, scores.ece), (0.0, 1.0, 1.0));
        assert!(scores.nll.is_finite() && scores.nll > 700.0);
    }

    /// 1/4, 1/2 and 3/4 are numbers exactly: each is the last of its bin, the next number is the first of the next.
    #[test]
    fn a_confidence_on_an_edge_lies_below_it() {
        for (confidence, bin) in [(0.25, 0), (0.5, 1), (0.75, 2), (1.0, 3), (0.0, 0)] {
            assert_eq!(bin_of(confidence, 4), bin, "{confidence}");
        }
        assert_eq!(bin_of(f64::from_bits(0.25f64.to_bits() + 1), 4), 1);
        // i/15 is no number, but the edge is the number nearest to it, and nothing lies between.
        for i in 1..ECE_BINS {
            let edge = i as f64 / ECE_BINS as f64;
            assert_eq!(bin_of(edge, ECE_BINS), i - 1);
            assert_eq!(bin_of(f64::from_bits(edge.to_bits() + 1), ECE_BINS), i);
        }
    }

    #[test]
    fn among_equals_the_first_class_counts() {
        let even: &[f64] = &[0.125; 8];
        let scores = |label| tally(&[(even, label)], ECE_BINS).scores();
        assert_eq!((scores(0).top1, scores(1).top1), (1.0, 0.0));
        assert_eq!((scores(4).top5, scores(5).top5), (1.0, 0.0));
        assert_eq!(most_probable(even), 0);
    }

    #[test]
    fn diversity_needs_two_members_that_err() {
        assert_eq!(diversity(&[&[0, 1]], &[0, 0]), None);
        assert_eq!(diversity(&[&[0, 1], &[0, 0]], &[0, 0]), None);
        assert_eq!(diversity(&[&[0, 1], &[0, 1]], &[0, 0]), Some(0.0));
    }
}
