//! Every ensemble of members from one pass over the data.
//!
//! The sum of a subset's probabilities is that of the subset without its last member plus that member's: one addition
//! per class for each of the 2^M − 1 subsets, which is nothing beside the networks. Not M passes, nor a pass per subset.
//! Exits of one network are many and each has cost all before it: of these the ensembles are all up to one of them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::metrics::{Scores, Tally, softmax};
use super::predictions::Predictions;
use crate::voices::VoiceId;

/// Most members whose subsets are all listed: 1,023 of them.
pub const MAX_MEMBERS: usize = 10;

/// Most members that a subset may have, and a run.
const BITS: usize = u64::BITS as usize;

/// Some members, as bits.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "Vec<usize>", into = "Vec<usize>")]
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
    pub fn one(member: VoiceId) -> Self {
        Self(1 << member.0)
    }

    /// Every subset but the empty one, small ones first, then in the order of members.
    pub fn every(members: usize) -> Vec<Self> {
        let mut every: Vec<_> = (1..=Self::all(members).0).map(Self).collect();
        every
            .sort_by_key(|subset| (subset.len(), subset.voices().map(|m| m.0).collect::<Vec<_>>()));
        every
    }

    /// Every one by itself, then the first two, the first three and so on to all of them.
    pub fn prefixes(members: usize) -> Vec<Self> {
        let alone = (0..members).map(|member| Self::one(VoiceId(member)));
        alone.chain((2..=members).map(Self::all)).collect()
    }

    /// Who belongs to it, in order.
    pub fn voices(self) -> impl Iterator<Item = VoiceId> {
        (0..BITS).filter(move |bit| self.0 >> bit & 1 == 1).map(VoiceId)
    }

    /// Whether a member belongs to it.
    pub fn contains(self, member: VoiceId) -> bool {
        self.0 >> member.0 & 1 == 1
    }

    /// Whether all of it belongs to another.
    pub fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// This and one more member.
    pub fn with(self, member: VoiceId) -> Self {
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

    /// As people read it: so many in a row as the first and the last of them.
    pub(crate) fn brief(self, many: usize) -> String {
        let first = self.0.trailing_zeros() as usize;
        let row = self.len() >= many && self.0 >> first == Self::all(self.len()).0;
        if row { format!("{first}–{}", first + self.len() - 1) } else { self.to_string() }
    }

    /// The last of several, and what they are without it.
    fn split(self) -> Option<(Self, Self)> {
        let last = Self::one(self.voices().last()?);
        let before = Self(self.0 & !last.0);
        (!before.is_empty()).then_some((before, last))
    }
}

impl TryFrom<Vec<usize>> for Subset {
    type Error = String;

    fn try_from(members: Vec<usize>) -> Result<Self, String> {
        if members.is_empty() {
            return Err("a subset of nobody".to_owned());
        }
        members.into_iter().try_fold(Self::EMPTY, |subset, member| match member {
            0..BITS if !subset.contains(VoiceId(member)) => Ok(subset.with(VoiceId(member))),
            0..BITS => Err(format!("a subset has {member} twice")),
            _ => Err(format!("a subset with {member}, which is more than {}", BITS - 1)),
        })
    }
}

impl From<Subset> for Vec<usize> {
    fn from(subset: Subset) -> Self {
        subset.voices().map(|member| member.0).collect()
    }
}

impl fmt::Display for Subset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members: Vec<_> = self.voices().map(|member| member.0.to_string()).collect();
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

/// Scores of these subsets, in their order: [`Subset::every`] or [`Subset::prefixes`].
///
/// # Panics
/// Where an ensemble comes before what it is without its last member, or before that.
pub fn evaluate_subsets(predictions: &Predictions, subsets: &[Subset]) -> Vec<SubsetScores> {
    let classes = predictions.classes();
    let mut scores: Vec<_> =
        subsets.iter().map(|&subset| SubsetScores { subset, tally: Tally::default() }).collect();
    let place: BTreeMap<_, _> =
        subsets.iter().enumerate().map(|(i, &subset)| (subset, i)).collect();
    let sum_of =
        |subset: &Subset| subset.split().map(|(before, last)| [place[&before], place[&last]]);
    let sums_of: Vec<_> = subsets.iter().map(sum_of).collect();
    let mut sums = vec![0.0; subsets.len() * classes];
    let mut mean = vec![0.0; classes];
    for (image, &label) in predictions.labels().iter().enumerate() {
        for (i, scored) in scores.iter_mut().enumerate() {
            let (known, rest) = sums.split_at_mut(i * classes);
            let sum = &mut rest[..classes];
            match sums_of[i] {
                None => {
                    let alone = scored.subset.voices().next().expect("no subset listed is empty");
                    softmax(predictions.logits(alone, image), sum);
                }
                Some(terms) => {
                    let [shorter, alone] = terms.map(|term| &known[term * classes..][..classes]);
                    let terms = shorter.iter().zip(alone);
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

    #[test]
    fn subsets_are_listed_small_first_and_read_back() {
        let every = Subset::every(3);
        let names: Vec<_> = every.iter().map(Subset::to_string).collect();
        assert_eq!(names, ["0", "1", "2", "0+1", "0+2", "1+2", "0+1+2"]);
        let json = serde_json::to_string(&every).unwrap();
        assert_eq!(json, "[[0],[1],[2],[0,1],[0,2],[1,2],[0,1,2]]");
        assert_eq!(serde_json::from_str::<Vec<Subset>>(&json).unwrap(), every);
        assert!(every[3].contains(VoiceId(1)) && !every[3].contains(VoiceId(2)));
        // As many as a recipe may have.
        let all = Subset::all(64);
        assert_eq!((all.len(), all.voices().last()), (64, Some(VoiceId(63))));
        assert_eq!(Subset::try_from(Vec::from(all)), Ok(all));
        for wrong in ["[]", "[1,1]", "[64]"] {
            assert!(serde_json::from_str::<Subset>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn prefixes_are_the_same_as_among_every_subset() {
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

    /// Two members, each right on its own image and sure; together they waver but the right class stays first.
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
