//! The outputs of a run: its members, or the exits of its only member.
//!
//! | | members | exits |
//! |---|---|---|
//! | time of one output | its own | its own and that of all earlier exits |
//! | subsets that are evaluated | every subset | single exits, and all exits up to one of them |
//!
//! Training handles members. From evaluation on members and exits are treated alike and numbered by
//! [`OutputId`]: logits, predictions and profiles have one row per output.

use std::fmt;
use std::ops::Range;

use superweight_plan::arch::ArchName;
use superweight_plan::{MemberId, SharingPlan};
use thiserror::Error;

use super::{MAX_MEMBERS, OutputId, Subset};

/// Largest number of exits whose subsets are listed: the bits of a [`Subset`].
const MAX_EXITS: usize = 64;

/// Error: a run has too many outputs to list their subsets.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "{count} {words}: their subsets are listed for at most {most}; 'swn predict' uses all of them"
)]
pub struct TooMany {
    count: usize,
    words: &'static str,
    most: usize,
}

/// Names and kind of the outputs of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outputs {
    names: Vec<String>,
    nested: bool,
}

impl Outputs {
    /// Outputs with these architecture names. `nested` states that they are exits of one network.
    pub fn new(names: Vec<String>, nested: bool) -> Self {
        Self { names, nested }
    }

    /// Outputs of the members of a plan.
    pub fn of_plan(plan: &SharingPlan) -> Self {
        Self::of_networks(
            &plan.members.iter().map(|member| member.architecture.to_string()).collect::<Vec<_>>(),
        )
    }

    /// Outputs of members with these architecture names: the exits of a single network that has
    /// several, else one output per member.
    pub fn of_networks(names: &[String]) -> Self {
        let exits = |name: &String| name.parse().map_or(1, |name: ArchName| name.exits());
        match names {
            [one] if exits(one) > 1 => Self::new(vec![one.clone(); exits(one)], true),
            _ => Self::new(names.to_vec(), false),
        }
    }

    /// Number of outputs.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// Architecture name of every output.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether the outputs are exits of one network, each of which needs the work of all earlier
    /// exits.
    pub fn nested(&self) -> bool {
        self.nested
    }

    /// Singular noun for an output: `exit` or `member`.
    pub fn word(&self) -> &'static str {
        if self.nested { "exit" } else { "member" }
    }

    /// Plural noun for the outputs: `exits` or `members`.
    pub fn words(&self) -> &'static str {
        if self.nested { "exits" } else { "members" }
    }

    /// Name of the combination of all outputs, which predicts the mean of their probabilities:
    /// `all exits` or `ensemble`.
    pub fn combined_name(&self) -> &'static str {
        if self.nested { "all exits" } else { "ensemble" }
    }

    /// Describes how a file's `stated` outputs differ from these, those of the run; `None` if they
    /// are equal.
    pub fn contradiction(&self, stated: &Self) -> Option<String> {
        (stated != self).then(|| format!("of {stated}, the run has {self}"))
    }

    /// Indices of the outputs of one member.
    pub fn of_member(&self, member: MemberId) -> Range<usize> {
        if self.nested { 0..self.count() } else { member.0..member.0 + 1 }
    }

    /// Subsets that evaluation scores, including every single output; see
    /// [`evaluate_subsets`](crate::evaluate::evaluate_subsets).
    ///
    /// # Errors
    /// If there are more than [`MAX_MEMBERS`] members or 64 exits.
    pub fn subsets(&self) -> Result<Vec<Subset>, TooMany> {
        let count = self.count();
        let (most, list): (_, fn(usize) -> Vec<Subset>) =
            if self.nested { (MAX_EXITS, Subset::prefixes) } else { (MAX_MEMBERS, Subset::every) };
        match count <= most {
            true => Ok(list(count)),
            false => Err(TooMany { count, words: self.words(), most }),
        }
    }

    /// Text of a subset for people. Two or more consecutive exits, and five or more consecutive
    /// members, are written as `first–last`.
    pub fn brief(&self, subset: Subset) -> String {
        subset.brief(if self.nested { 2 } else { 5 })
    }

    /// Outputs that must run before all outputs of a subset are available: the subset, and for
    /// exits all earlier exits.
    pub fn needed(&self, subset: Subset) -> Subset {
        match subset.outputs().last() {
            Some(OutputId(last)) if self.nested => Subset::all(last + 1),
            _ => subset,
        }
    }
}

impl fmt::Display for Outputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.names[..] {
            [one, ..] if self.nested => write!(f, "{} exits of {one}", self.count()),
            names => f.write_str(&names.join(", ")),
        }
    }
}
