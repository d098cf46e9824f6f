//! How good members and ensemble are on some images: top-1, top-5, loss.
//!
//! All three come from the logits, on the host in f64: softmax per member, the mean of the members' probabilities for
//! the ensemble, loss = −log of the target's probability. Among equal probabilities the lower class comes first, as in the
//! engine. Not the engine's own counts: they know no ensemble, and one rule for both columns of a table is better than two.

use serde::Serialize;
use superweight_engine::{Device, ImageDraw};

use super::{TrainError, Trainer};
use crate::data::{Batches, Dataset, EvalBatches, Part};
use crate::model::OutputId;

/// Figures of one member, or of all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Scores {
    /// Images whose class came first, in percent.
    pub top1: f64,
    /// Images whose class was among the first five, in percent.
    pub top5: f64,
    /// Mean of −log p of the class.
    pub loss: f64,
}

impl Scores {
    fn add(&mut self, probabilities: &[f64], class: usize) {
        let p = probabilities[class];
        let before = |(i, &other): (usize, &f64)| other > p || (other == p && i < class);
        let rank = probabilities.iter().enumerate().filter(|&pair| before(pair)).count();
        self.top1 += f64::from(u8::from(rank == 0));
        self.top5 += f64::from(u8::from(rank < 5));
        // A probability too small for f64 is infinitely wrong; the loss stays a number.
        self.loss -= p.max(f64::MIN_POSITIVE).ln();
    }

    fn over(self, images: usize) -> Self {
        let n = images.max(1) as f64;
        Self { top1: 100.0 * self.top1 / n, top5: 100.0 * self.top5 / n, loss: self.loss / n }
    }
}

/// What an evaluation found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// How many images.
    pub images: usize,
    /// The mean of the voices' probabilities.
    pub ensemble: Scores,
    /// Each voice by itself.
    pub members: Vec<Scores>,
}

/// What the images seen so far add up to.
#[derive(Clone, Debug)]
pub struct Tally {
    classes: usize,
    images: usize,
    ensemble: Scores,
    members: Vec<Scores>,
}

impl Tally {
    /// Nothing seen yet.
    pub fn new(members: usize, classes: usize) -> Self {
        Self {
            classes,
            images: 0,
            ensemble: Scores::default(),
            members: vec![Scores::default(); members],
        }
    }

    /// Adds a batch: each member's logits, rows beyond the labels are padding.
    pub fn add(&mut self, logits: &[Vec<f32>], labels: &[u16]) {
        let mut mean = vec![0.0; labels.len() * self.classes];
        for (scores, logits) in self.members.iter_mut().zip(logits) {
            let rows = logits.chunks_exact(self.classes).zip(mean.chunks_exact_mut(self.classes));
            for ((logits, mean), &label) in rows.zip(labels) {
                let probabilities = softmax(logits);
                scores.add(&probabilities, label.into());
                mean.iter_mut().zip(&probabilities).for_each(|(sum, p)| *sum += p);
            }
        }
        let members = self.members.len() as f64;
        mean.iter_mut().for_each(|p| *p /= members);
        for (mean, &label) in mean.chunks_exact(self.classes).zip(labels) {
            self.ensemble.add(mean, label.into());
        }
        self.images += labels.len();
    }

    /// The figures.
    pub fn finish(self) -> Evaluation {
        let over = |scores: Scores| scores.over(self.images);
        let members = self.members.into_iter().map(over).collect();
        Evaluation { images: self.images, ensemble: over(self.ensemble), members }
    }
}

impl<D: Device> Trainer<D> {
    /// Runs these images of a part once through every member.
    pub fn evaluate(
        &mut self,
        data: &Dataset,
        part: Part,
        batches: EvalBatches,
    ) -> Result<Evaluation, TrainError> {
        let mut batches = batches.for_heads(self.ensemble().heads());
        let voices = self.ensemble().voices().count();
        let mut tally = Tally::new(voices, data.classes.len());
        let mut draws = batches.buffer();
        self.compose()?;
        for step in 0..batches.steps() {
            batches.fill(step, &mut draws)?;
            self.evaluate_step(part, &draws)?;
            let label = |draw: &ImageDraw| data.part(part).labels[draw.image as usize];
            // An image is drawn for every head.
            let labels: Vec<u16> =
                draws.iter().step_by(self.ensemble().heads()).map(label).collect();
            let logits = (0..voices)
                .map(|voice| self.ensemble().logits(OutputId(voice)))
                .collect::<Result<Vec<_>, _>>()?;
            tally.add(&logits, &labels);
        }
        Ok(tally.finish())
    }
}

fn softmax(logits: &[f32]) -> Vec<f64> {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut exponentials: Vec<f64> = logits.iter().map(|&z| f64::from(z - most).exp()).collect();
    let sum: f64 = exponentials.iter().sum();
    exponentials.iter_mut().for_each(|e| *e /= sum);
    exponentials
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_ties_and_losses() {
        let mut scores = Scores::default();
        let uniform = [0.125; 8];
        scores.add(&uniform, 0); // first among equals
        scores.add(&uniform, 4); // the fifth
        scores.add(&uniform, 5); // the sixth
        scores.add(&[0.5, 0.25, 0.25], 2);
        let scores = scores.over(4);
        assert_eq!((scores.top1, scores.top5), (25.0, 75.0));
        assert!((scores.loss - (3.0 * 8f64.ln() + 4f64.ln()) / 4.0).abs() < 1e-12);
    }

    #[test]
    fn logits_out_of_reach_of_exp_are_fine() {
        let p = softmax(&[1000.0, 0.0, -1000.0]);
        assert_eq!(p[0], 1.0);
        let mut scores = Scores::default();
        scores.add(&p, 2);
        assert!(scores.loss.is_finite() && scores.loss > 700.0);
        assert!(softmax(&[f32::NAN, 0.0]).iter().all(|p| p.is_nan()));
    }
}
