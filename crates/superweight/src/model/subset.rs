//! Sets of members or exits, as bits of one word.

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
    pub fn one(member: OutputId) -> Self {
        Self(1 << member.0)
    }

    /// Every subset but the empty one, small ones first, then in the order of members.
    pub fn every(members: usize) -> Vec<Self> {
        let mut every: Vec<_> = (1..=Self::all(members).0).map(Self).collect();
        every.sort_by_key(|subset| {
            (subset.len(), subset.outputs().map(|m| m.0).collect::<Vec<_>>())
        });
        every
    }

    /// Every one by itself, then the first two, the first three and so on to all of them.
    pub fn prefixes(members: usize) -> Vec<Self> {
        let alone = (0..members).map(|member| Self::one(OutputId(member)));
        alone.chain((2..=members).map(Self::all)).collect()
    }

    /// Who belongs to it, in order.
    pub fn outputs(self) -> impl Iterator<Item = OutputId> {
        (0..BITS).filter(move |bit| self.0 >> bit & 1 == 1).map(OutputId)
    }

    /// Whether a member belongs to it.
    pub fn contains(self, member: OutputId) -> bool {
        self.0 >> member.0 & 1 == 1
    }

    /// Whether all of it belongs to another.
    pub fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// This and one more member.
    pub fn with(self, member: OutputId) -> Self {
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
    pub(crate) fn split_last(self) -> Option<(Self, Self)> {
        let last = Self::one(self.outputs().last()?);
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
            0..BITS if !subset.contains(OutputId(member)) => Ok(subset.with(OutputId(member))),
            0..BITS => Err(format!("a subset has {member} twice")),
            _ => Err(format!("a subset with {member}, which is more than {}", BITS - 1)),
        })
    }
}

impl From<Subset> for Vec<usize> {
    fn from(subset: Subset) -> Self {
        subset.outputs().map(|member| member.0).collect()
    }
}

impl fmt::Display for Subset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members: Vec<_> = self.outputs().map(|member| member.0.to_string()).collect();
        f.write_str(&members.join("+"))
    }
}
