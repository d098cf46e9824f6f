//! Top-1, top-5 and NLL of members and ensemble during training.
//!
//! All three follow from the logits, on the host in f64: softmax per member, the mean of the
//! members' probabilities for the ensemble, NLL = −log p of the true class. Among equal
//! probabilities the lower class ranks first, as in the engine. The engine's own counts are not
//! used, because they do not cover the ensemble.

use superweight_engine::{Device, ImageSample};

use super::{TrainError, Trainer};
use crate::data::{Batches, Dataset, EvalBatches, Split};
use crate::model::OutputId;
use crate::probability::{MeanProbabilities, rank};
use crate::run::{Accuracy, Evaluation};

/// Sums over images for one member, or for the ensemble.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    top1: f64,
    top5: f64,
    nll: f64,
}

impl Sums {
    fn add(&mut self, probabilities: &[f64], class: usize) {
        let p = probabilities[class];
        let rank = rank(probabilities, class);
        self.top1 += f64::from(u8::from(rank == 0));
        self.top5 += f64::from(u8::from(rank < 5));
        // A probability that underflows f64 would make the NLL infinite.
        self.nll -= p.max(f64::MIN_POSITIVE).ln();
    }

    fn over(self, images: usize) -> Accuracy {
        let n = images.max(1) as f64;
        Accuracy { top1: 100.0 * self.top1 / n, top5: 100.0 * self.top5 / n, nll: self.nll / n }
    }
}

/// Sums over the images evaluated so far.
#[derive(Clone, Debug)]
pub struct Tally {
    classes: usize,
    images: usize,
    ensemble: Sums,
    members: Vec<Sums>,
}

impl Tally {
    /// Empty sums for `members` members.
    pub fn new(members: usize, classes: usize) -> Self {
        Self {
            classes,
            images: 0,
            ensemble: Sums::default(),
            members: vec![Sums::default(); members],
        }
    }

    /// Adds a batch: the logits of each member. Rows beyond the labels are padding.
    pub fn add(&mut self, logits: &[Vec<f32>], labels: &[u16]) {
        let mut mean = MeanProbabilities::new(self.classes);
        for (scores, logits) in self.members.iter_mut().zip(logits) {
            let rows = &logits[..labels.len() * self.classes];
            mean.add_each(rows, |image, p| scores.add(p, labels[image].into()));
        }
        for (mean, &label) in mean.finish().chunks_exact(self.classes).zip(labels) {
            self.ensemble.add(mean, label.into());
        }
        self.images += labels.len();
    }

    /// Figures over all images.
    pub fn finish(self) -> Evaluation {
        let over = |sums: Sums| sums.over(self.images);
        let members = self.members.into_iter().map(over).collect();
        Evaluation { images: self.images, ensemble: over(self.ensemble), members }
    }
}

impl<D: Device> Trainer<D> {
    /// Evaluates every member on these images of a split.
    pub fn evaluate(
        &mut self,
        data: &Dataset,
        split: Split,
        batches: EvalBatches,
    ) -> Result<Evaluation, TrainError> {
        let mut batches = batches.for_heads(self.ensemble().heads());
        let outputs = self.ensemble().outputs().count();
        let mut tally = Tally::new(outputs, data.classes.len());
        let mut draws = batches.buffer();
        self.compose()?;
        for step in 0..batches.steps() {
            batches.fill(step, &mut draws)?;
            self.evaluate_step(split, &draws)?;
            let label = |draw: &ImageSample| data.split(split).labels[draw.image as usize];
            // MIMO draws each image once per subnetwork.
            let labels: Vec<u16> =
                draws.iter().step_by(self.ensemble().heads()).map(label).collect();
            let logits = (0..outputs)
                .map(|output| self.ensemble().logits(OutputId(output)))
                .collect::<Result<Vec<_>, _>>()?;
            tally.add(&logits, &labels);
        }
        Ok(tally.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_ties_and_losses() {
        let mut scores = Sums::default();
        let uniform = [0.125; 8];
        scores.add(&uniform, 0); // first among equals
        scores.add(&uniform, 4); // the fifth
        scores.add(&uniform, 5); // the sixth
        scores.add(&[0.5, 0.25, 0.25], 2);
        let scores = scores.over(4);
        assert_eq!((scores.top1, scores.top5), (25.0, 75.0));
        assert!((scores.nll - (3.0 * 8f64.ln() + 4f64.ln()) / 4.0).abs() < 1e-12);
    }

    #[test]
    fn a_probability_of_zero_has_a_finite_nll() {
        let mut scores = Sums::default();
        scores.add(&[1.0, 0.0, 0.0], 2);
        assert!(scores.nll.is_finite() && scores.nll > 700.0);
    }
}
