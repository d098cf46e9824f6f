//! Sets of outputs (members or exits), as bits of one word.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Index of one output of a run: a member's place in the plan, or an exit's place in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutputId(pub usize);

impl fmt::Display for OutputId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Largest number of members for which all non-empty subsets (1,023 of them) are evaluated.
pub const MAX_MEMBERS: usize = 10;

/// Largest number of outputs that a subset, and therefore a run, can have.
const BITS: usize = u64::BITS as usize;

/// A set of the outputs of a run: of its members, or of the exits of its only member.
///
/// It serializes as a list of indices and prints as `0+2+3`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "Vec<usize>", into = "Vec<usize>")]
pub struct Subset(u64);

impl Subset {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// The set of the first `count` outputs.
    ///
    /// # Panics
    /// If `count` is more than 64.
    pub fn all(count: usize) -> Self {
        assert!(count <= BITS, "a subset has at most {BITS} outputs");
        Self(1u64.checked_shl(count as u32).map_or(u64::MAX, |bit| bit - 1))
    }

    /// The set of one output.
    pub fn one(output: OutputId) -> Self {
        Self(1 << output.0)
    }

    /// All non-empty subsets of the first `count` outputs, by size, then in the order of outputs.
    pub fn every(count: usize) -> Vec<Self> {
        let mut every: Vec<_> = (1..=Self::all(count).0).map(Self).collect();
        every.sort_by_key(|subset| {
            (subset.len(), subset.outputs().map(|m| m.0).collect::<Vec<_>>())
        });
        every
    }

    /// Every single output, then the first two outputs, the first three, and so on up to `count`.
    pub fn prefixes(count: usize) -> Vec<Self> {
        let single = (0..count).map(|output| Self::one(OutputId(output)));
        single.chain((2..=count).map(Self::all)).collect()
    }

    /// The outputs in the set, in ascending order.
    pub fn outputs(self) -> impl Iterator<Item = OutputId> {
        (0..BITS).filter(move |bit| self.0 >> bit & 1 == 1).map(OutputId)
    }

    /// Whether the set contains an output.
    pub fn contains(self, output: OutputId) -> bool {
        self.0 >> output.0 & 1 == 1
    }

    /// Whether every output of this set is in `other`.
    pub fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// This set with one more output.
    pub fn with(self, output: OutputId) -> Self {
        Self(self.0 | 1 << output.0)
    }

    /// Number of outputs in the set.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the set contains no output.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Text of the set for people: at least `many` consecutive outputs as `first–last`, others as
    /// `0+2+3`.
    pub(crate) fn brief(self, many: usize) -> String {
        let first = self.0.trailing_zeros() as usize;
        let is_range = self.len() >= many && self.0 >> first == Self::all(self.len()).0;
        if is_range { format!("{first}–{}", first + self.len() - 1) } else { self.to_string() }
    }

    /// The set without its last output, and the set of that output alone; `None` for fewer than two
    /// outputs.
    pub(crate) fn split_last(self) -> Option<(Self, Self)> {
        let last = Self::one(self.outputs().last()?);
        let before = Self(self.0 & !last.0);
        (!before.is_empty()).then_some((before, last))
    }
}

impl TryFrom<Vec<usize>> for Subset {
    type Error = String;

    fn try_from(outputs: Vec<usize>) -> Result<Self, String> {
        if outputs.is_empty() {
            return Err("a subset has no outputs".to_owned());
        }
        outputs.into_iter().try_fold(Self::EMPTY, |subset, output| match output {
            0..BITS if !subset.contains(OutputId(output)) => Ok(subset.with(OutputId(output))),
            0..BITS => Err(format!("a subset has {output} twice")),
            _ => Err(format!("a subset has {output}, the largest index is {}", BITS - 1)),
        })
    }
}

impl From<Subset> for Vec<usize> {
    fn from(subset: Subset) -> Self {
        subset.outputs().map(|output| output.0).collect()
    }
}

impl fmt::Display for Subset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outputs: Vec<_> = self.outputs().map(|output| output.0.to_string()).collect();
        f.write_str(&outputs.join("+"))
    }
}
