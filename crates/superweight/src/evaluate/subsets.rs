//! Scores of every ensemble of members from one pass over the data.
//!
//! The sum of a subset's probabilities is the sum of the subset without its last member, plus that
//! member's. This costs one addition per class for each of the 2^M − 1 subsets, which is negligible
//! beside the networks; a pass per subset would not be. Exits of one network are many, and each one
//! costs all exits before it, so their ensembles are the sets of all exits up to one of them.

use std::collections::BTreeMap;

use super::metrics::{Scores, Tally};
use super::predictions::Predictions;
use crate::model::Subset;
use crate::probability::softmax;

/// Scores of one subset of members, as counts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SubsetScores {
    /// The members of the subset.
    pub subset: Subset,
    /// Counts over the images, with the bins of the reliability diagram.
    pub tally: Tally,
}

impl SubsetScores {
    /// The scores of the subset.
    pub fn scores(&self) -> Scores {
        self.tally.scores()
    }
}

/// Scores of these subsets, in their order. [`Subset::every`] and [`Subset::prefixes`] list
/// suitable subsets.
///
/// # Panics
/// If an ensemble is listed before its last member, or before the ensemble without that member.
pub fn evaluate_subsets(predictions: &Predictions, subsets: &[Subset]) -> Vec<SubsetScores> {
    let classes = predictions.classes();
    let mut scores: Vec<_> =
        subsets.iter().map(|&subset| SubsetScores { subset, tally: Tally::default() }).collect();
    let place: BTreeMap<_, _> =
        subsets.iter().enumerate().map(|(i, &subset)| (subset, i)).collect();
    let sum_of =
        |subset: &Subset| subset.split_last().map(|(before, last)| [place[&before], place[&last]]);
    let sums_of: Vec<_> = subsets.iter().map(sum_of).collect();
    let mut sums = vec![0.0; subsets.len() * classes];
    let mut mean = vec![0.0; classes];
    for (image, &label) in predictions.labels().iter().enumerate() {
        for (i, scored) in scores.iter_mut().enumerate() {
            let (known, rest) = sums.split_at_mut(i * classes);
            let sum = &mut rest[..classes];
            match sums_of[i] {
                None => {
                    let single = scored.subset.outputs().next().expect("no subset is empty");
                    softmax(predictions.logits(single, image), sum);
                }
                Some(terms) => {
                    let [shorter, single] = terms.map(|term| &known[term * classes..][..classes]);
                    let terms = shorter.iter().zip(single);
                    sum.iter_mut().zip(terms).for_each(|(sum, (a, b))| *sum = a + b);
                }
            }
            let members = scored.subset.len() as f64;
            mean.iter_mut().zip(&*sum).for_each(|(mean, sum)| *mean = sum / members);
            scored.tally.add(&mean, label.into());
        }
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::OutputId;

    #[test]
    fn subsets_are_listed_by_size_and_read_back() {
        let every = Subset::every(3);
        let names: Vec<_> = every.iter().map(Subset::to_string).collect();
        assert_eq!(names, ["0", "1", "2", "0+1", "0+2", "1+2", "0+1+2"]);
        let json = serde_json::to_string(&every).unwrap();
        assert_eq!(json, "[[0],[1],[2],[0,1],[0,2],[1,2],[0,1,2]]");
        assert_eq!(serde_json::from_str::<Vec<Subset>>(&json).unwrap(), every);
        assert!(every[3].contains(OutputId(1)) && !every[3].contains(OutputId(2)));
        // The largest number of members that a recipe may have.
        let all = Subset::all(64);
        assert_eq!((all.len(), all.outputs().last()), (64, Some(OutputId(63))));
        assert_eq!(Subset::try_from(Vec::from(all)), Ok(all));
        for wrong in ["[]", "[1,1]", "[64]"] {
            assert!(serde_json::from_str::<Subset>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn prefixes_score_as_they_do_among_every_subset() {
        let logits =
            (0..4).map(|m| (0..12).map(|i| ((i * 7 + m * 5) % 11) as f32).collect()).collect();
        let predictions = Predictions::new(4, vec![0, 3, 1], logits).unwrap();
        let every = evaluate_subsets(&predictions, &Subset::every(4));
        let prefixes = evaluate_subsets(&predictions, &Subset::prefixes(4));
        let names: Vec<_> = prefixes.iter().map(|scored| scored.subset.to_string()).collect();
        assert_eq!(names, ["0", "1", "2", "3", "0+1", "0+1+2", "0+1+2+3"]);
        assert!(prefixes.iter().all(|scored| every.contains(scored)));
        assert_eq!(Subset::prefixes(1), Subset::every(1));
        let brief = |subset: Subset| subset.brief(5);
        assert_eq!(
            (brief(Subset::all(4)), brief(Subset::all(16))),
            ("0+1+2+3".into(), "0–15".into())
        );
        assert_eq!(brief(Subset::try_from(vec![2, 3, 4, 5, 6]).unwrap()), "2–6");
        assert_eq!(brief(Subset::try_from(vec![0, 2, 3, 4, 5]).unwrap()), "0+2+3+4+5");
        assert_eq!(brief(Subset::all(64)), "0–63");
        assert_eq!((Subset::all(2).brief(2), Subset::all(1).brief(2)), ("0–1".into(), "0".into()));
    }

    /// Two members, each correct and confident on one image: together they are less confident, and
    /// correct on both.
    #[test]
    fn an_ensemble_is_the_mean_of_probabilities() {
        let third = 3f32.ln(); // softmax of (ln 3, 0) is (3/4, 1/4)
        let logits = vec![vec![third, 0.0, 0.0, 0.0], vec![0.0, 0.0, 0.0, third]];
        let predictions = Predictions::new(2, vec![0, 1], logits).unwrap();
        let scores = evaluate_subsets(&predictions, &Subset::every(2));
        let together = scores[2].scores();
        assert_eq!(scores[2].subset.to_string(), "0+1");
        // Image 0: (3/4 + 1/2)/2 = 5/8 for class 0; image 1: the same for class 1.
        assert!((together.nll + (5f64 / 8.0).ln()).abs() < 1e-7, "{together:?}");
        assert_eq!(together.top1, 1.0);
        assert!((together.ece - 3.0 / 8.0).abs() < 1e-7);
    }
}
