//! Every ensemble of members from one pass over the data.
//!
//! The sum of a subset's probabilities is that of the subset without its last member plus that member's: one addition
//! per class for each of the 2^M − 1 subsets, which is nothing beside the networks. Not M passes, nor a pass per subset.

use std::fmt;

use serde::{Deserialize, Serialize};
use superweight_plan::MemberId;

use super::metrics::{Scores, Tally, softmax};
use super::predictions::Predictions;

/// Most members whose subsets are all listed: 1,023 of them.
pub const MAX_MEMBERS: usize = 10;

/// Most members that a subset may have, and a run.
pub(super) const BITS: usize = u64::BITS as usize;

/// Some members, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<usize>", into = "Vec<usize>")]
pub struct Subset(u64);

impl Subset {
    /// No member.
    pub const EMPTY: Self = Self(0);

    /// All `members` of them.
    pub fn all(members: usize) -> Self {
        assert!(members <= BITS, "members are counted in the bits of a word");
        Self(1u64.checked_shl(members as u32).map_or(u64::MAX, |bit| bit - 1))
    }

    /// One member.
    pub fn one(member: MemberId) -> Self {
        Self(1 << member.0)
    }

    /// Every subset but the empty one, small ones first, then in the order of members.
    pub fn every(members: usize) -> Vec<Self> {
        let mut every: Vec<_> = (1..=Self::all(members).0).map(Self).collect();
        every.sort_by_key(|subset| (subset.len(), subset.members().map(|m| m.0).collect::<Vec<_>>()));
        every
    }

    /// Its members in order.
    pub fn members(self) -> impl Iterator<Item = MemberId> {
        (0..BITS).filter(move |bit| self.0 >> bit & 1 == 1).map(MemberId)
    }

    /// Whether a member belongs to it.
    pub fn contains(self, member: MemberId) -> bool {
        self.0 >> member.0 & 1 == 1
    }

    /// This and one more member.
    pub fn with(self, member: MemberId) -> Self {
        Self(self.0 | 1 << member.0)
    }

    /// How many members.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<Vec<usize>> for Subset {
    fn from(members: Vec<usize>) -> Self {
        Self(members.into_iter().filter(|&m| m < BITS).fold(0, |bits, m| bits | 1 << m))
    }
}

impl From<Subset> for Vec<usize> {
    fn from(subset: Subset) -> Self {
        subset.members().map(|member| member.0).collect()
    }
}

impl fmt::Display for Subset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members: Vec<_> = self.members().map(|member| member.0.to_string()).collect();
        f.write_str(&members.join("+"))
    }
}

/// How good one subset is.
#[derive(Clone, Debug, PartialEq)]
pub struct SubsetScores {
    /// Which members.
    pub subset: Subset,
    /// Counts, with the bars of the reliability diagram.
    pub tally: Tally,
}

impl SubsetScores {
    /// Its scores.
    pub fn scores(&self) -> Scores {
        self.tally.scores()
    }
}

/// Scores of every subset, in the order of [`Subset::every`].
///
/// # Panics
/// With more than [`MAX_MEMBERS`] members, or none.
pub fn evaluate_subsets(predictions: &Predictions) -> Vec<SubsetScores> {
    let members = predictions.members();
    assert!((1..=MAX_MEMBERS).contains(&members), "subsets are listed for 1 to {MAX_MEMBERS} members");
    let (classes, subsets) = (predictions.classes(), 1usize << members);
    let mut tallies = vec![Tally::default(); subsets];
    let mut sums = vec![0.0; subsets * classes];
    let mut mean = vec![0.0; classes];
    for (image, &label) in predictions.labels().iter().enumerate() {
        for subset in (1..subsets as u64).map(Subset) {
            let last = subset.members().last().expect("no subset listed is empty");
            let before = subset.index() & !(1 << last.0);
            let (known, rest) = sums.split_at_mut(subset.index() * classes);
            let sum = &mut rest[..classes];
            match before {
                0 => softmax(predictions.logits(last, image), sum),
                _ => {
                    let (shorter, alone) = (&known[before * classes..], &known[(1 << last.0) * classes..]);
                    let terms = shorter.iter().zip(alone);
                    sum.iter_mut().zip(terms).for_each(|(sum, (a, b))| *sum = a + b);
                }
            }
            let members = subset.len() as f64;
            mean.iter_mut().zip(&*sum).for_each(|(mean, sum)| *mean = sum / members);
            tallies[subset.index()].add(&mean, label.into());
        }
    }
    let every = Subset::every(members).into_iter();
    every.map(|subset| SubsetScores { tally: tallies[subset.index()].clone(), subset }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_are_listed_small_first_and_read_back() {
        let every = Subset::every(3);
        let names: Vec<_> = every.iter().map(Subset::to_string).collect();
        assert_eq!(names, ["0", "1", "2", "0+1", "0+2", "1+2", "0+1+2"]);
        let json = serde_json::to_string(&every).unwrap();
        assert_eq!(json, "[[0],[1],[2],[0,1],[0,2],[1,2],[0,1,2]]");
        assert_eq!(serde_json::from_str::<Vec<Subset>>(&json).unwrap(), every);
        assert!(every[3].contains(MemberId(1)) && !every[3].contains(MemberId(2)));
        // As many as a recipe may have.
        let all = Subset::all(64);
        assert_eq!((all.len(), all.members().last()), (64, Some(MemberId(63))));
        assert_eq!(Subset::from(Vec::from(all)), all);
    }

    /// Two members, each right on its own image and sure; together they waver but the right class stays first.
    #[test]
    fn an_ensemble_is_the_mean_of_probabilities() {
        let third = 3f32.ln(); // softmax of (ln 3, 0) is (3/4, 1/4)
        let logits = vec![vec![third, 0.0, 0.0, 0.0], vec![0.0, 0.0, 0.0, third]];
        let predictions = Predictions::new(2, vec![0, 1], logits).unwrap();
        let scores = evaluate_subsets(&predictions);
        let together = scores[2].scores();
        assert_eq!(scores[2].subset.to_string(), "0+1");
        // Image 0: (3/4 + 1/2)/2 = 5/8 for class 0; image 1: the same for class 1.
        assert!((together.nll + (5f64 / 8.0).ln()).abs() < 1e-7, "{together:?}");
        assert_eq!(together.top1, 1.0);
        assert!((together.ece - 3.0 / 8.0).abs() < 1e-7);
    }
}
