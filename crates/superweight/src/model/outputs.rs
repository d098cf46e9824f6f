//! Who answers when a run is asked: its members, each by itself, or the exits of its only one, each after those before it.
//!
//! | | members | exits |
//! |---|---|---|
//! | what one costs | its own time | its own and that of all before it |
//! | ensembles worth a look | every subset | all up to one of them |
//!
//! Training speaks of members. From evaluation on whoever answers is told by number ([`OutputId`]), members and exits alike:
//! logits, predictions and profiles have a row for each.

use std::fmt;
use std::ops::Range;

use superweight_plan::arch::ArchName;
use superweight_plan::{MemberId, SharingPlan};
use thiserror::Error;

use super::{MAX_MEMBERS, OutputId, Subset};

/// More than have their subsets listed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "{count} {words}: their subsets are listed for at most {most}; 'swn predict' uses all of them"
)]
pub struct TooMany {
    count: usize,
    words: &'static str,
    most: usize,
}

impl fmt::Display for Outputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.names[..] {
            [one, ..] if self.nested => write!(f, "{} exits of {one}", self.count()),
            names => f.write_str(&names.join(", ")),
        }
    }
}

/// Bits of a [`Subset`].
const MOST: usize = 64;

/// Whoever answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outputs {
    names: Vec<String>,
    nested: bool,
}

impl Outputs {
    /// Members of these names, or exits.
    pub fn new(names: Vec<String>, nested: bool) -> Self {
        Self { names, nested }
    }

    /// Those of a plan.
    pub fn of(plan: &SharingPlan) -> Self {
        Self::of_networks(
            &plan.members.iter().map(|member| member.architecture.to_string()).collect::<Vec<_>>(),
        )
    }

    /// Those of members of these architectures, by name.
    pub fn of_networks(names: &[String]) -> Self {
        let exits = |name: &String| name.parse().map_or(1, |name: ArchName| name.exits());
        match names {
            [one] if exits(one) > 1 => Self::new(vec![one.clone(); exits(one)], true),
            _ => Self::new(names.to_vec(), false),
        }
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// The architecture of each.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether they are exits, of which each takes the work of all before it.
    pub fn nested(&self) -> bool {
        self.nested
    }

    /// What each of them is.
    pub fn word(&self) -> &'static str {
        if self.nested { "exit" } else { "member" }
    }

    /// What several of them are.
    pub fn words(&self) -> &'static str {
        if self.nested { "exits" } else { "members" }
    }

    /// What all of them together are, the mean of their probabilities.
    pub fn combined_name(&self) -> &'static str {
        if self.nested { "all exits" } else { "ensemble" }
    }

    /// What is wrong with something that says it is of these: it is of others.
    pub fn contradiction(&self, said: &Self) -> Option<String> {
        (said != self).then(|| format!("of {said}, the run has {self}"))
    }

    /// Those of a member.
    pub fn of_member(&self, member: MemberId) -> Range<usize> {
        if self.nested { 0..self.count() } else { member.0..member.0 + 1 }
    }

    /// The ensembles that are worth a look, each one by itself among them; see [`evaluate_subsets`](crate::evaluate::evaluate_subsets).
    pub fn subsets(&self) -> Result<Vec<Subset>, TooMany> {
        let count = self.count();
        let (most, list): (_, fn(usize) -> Vec<Subset>) =
            if self.nested { (MOST, Subset::prefixes) } else { (MAX_MEMBERS, Subset::every) };
        match count <= most {
            true => Ok(list(count)),
            false => Err(TooMany { count, words: self.words(), most }),
        }
    }

    /// A subset as people read it: several exits, and many members in a row, as the first and the last of them.
    pub fn brief(&self, subset: Subset) -> String {
        subset.brief(if self.nested { 2 } else { 5 })
    }

    /// Who has to answer for these to have answered.
    pub fn needed(&self, subset: Subset) -> Subset {
        match subset.outputs().last() {
            Some(OutputId(last)) if self.nested => Subset::all(last + 1),
            _ => subset,
        }
    }
}
