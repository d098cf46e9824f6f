//! What trained members are worth, as the page draws it: scores of every subset, calibration, corruptions, latency,
//! interpolation. Shares are percent here, as in the paper's tables.

use serde::Serialize;

use crate::model::Subset;
use crate::model::OutputId;

/// Everything that evaluation left in a run folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Evaluation {
    /// `test` or `held-out`.
    pub split: String,
    /// What was evaluated, in words.
    pub on: String,
    /// How many images.
    pub images: u64,
    /// Whether it is of another checkpoint than the newest, or of fewer images than there are: then it is not what the run is worth.
    pub partial: bool,
    /// Scores of every subset of the members that was looked at.
    pub subsets: Vec<SubsetView>,
    /// Of members that disagree.
    pub diversity: Option<f64>,
    /// Accuracy under every corruption.
    pub corruptions: Option<Corruptions>,
    /// What members cost.
    pub latency: Option<Latency>,
    /// Accuracy between two members.
    pub interpolations: Vec<Interpolation>,
}

/// Scores of some members together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SubsetView {
    /// Which.
    pub members: Subset,
    /// Percent.
    pub top1: f64,
    /// Percent.
    pub top5: Option<f64>,
    /// Mean negative log-likelihood.
    pub nll: Option<f64>,
    /// Expected calibration error, percent.
    pub ece: Option<f64>,
    /// Bars of its reliability diagram, from confidence 0 to 1.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<BinView>,
}

/// A bar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BinView {
    /// In it.
    pub images: u64,
    /// Mean confidence, percent.
    pub confidence: f64,
    /// Percent.
    pub accuracy: f64,
}

/// Scores of the ensemble on corrupted images.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Corruptions {
    /// Where the images are from.
    pub source: String,
    /// Rows of the heat map.
    pub kinds: Vec<CorruptionRow>,
    /// Mean over the standard corruptions.
    pub mean_top1: Option<f64>,
    /// The same.
    pub mean_nll: Option<f64>,
    /// The same, percent.
    pub mean_ece: Option<f64>,
}

/// One corruption.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CorruptionRow {
    /// `gaussian noise`, …
    pub name: String,
    /// Top-1 in percent at severities 1, 2, …; none where it was not measured.
    pub top1: Vec<Option<f64>>,
}

/// Accuracy against time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// What was measured on.
    pub device: String,
    /// Images at once.
    pub batch_size: u64,
    /// Every subset.
    pub subsets: Vec<LatencyView>,
}

/// A subset's cost and worth.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LatencyView {
    /// Which members.
    pub members: Subset,
    /// Median, milliseconds.
    pub ms: f64,
    /// Of a hundred, the slowest but one.
    pub p99: Option<f64>,
    /// Percent.
    pub top1: f64,
    /// Whether no other is at least as good and at least as quick.
    pub front: bool,
}

/// Accuracy on the straight line between two members' weights.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Interpolation {
    /// From this member,
    pub from: usize,
    /// to this one.
    pub to: usize,
    /// Share of the second, top-1 in percent.
    pub points: Vec<(f64, f64)>,
}

impl Evaluation {
    /// Scores of all members together: of the largest subset.
    pub fn ensemble(&self) -> Option<&SubsetView> {
        self.subsets.iter().max_by_key(|subset| subset.members.len())
    }

    /// Scores of one member.
    pub fn member(&self, member: usize) -> Option<&SubsetView> {
        self.subsets.iter().find(|subset| subset.members == Subset::one(OutputId(member)))
    }
}

impl Latency {
    /// Marks the subsets that no other beats in both, or in one and equals in the other.
    pub fn mark_front(&mut self) {
        let all: Vec<_> = self.subsets.iter().map(|s| (s.ms, s.top1)).collect();
        for subset in &mut self.subsets {
            let better = |&(ms, top1): &(f64, f64)| {
                ms <= subset.ms && top1 >= subset.top1 && (ms < subset.ms || top1 > subset.top1)
            };
            subset.front = !all.iter().any(better);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_is_what_nothing_beats() {
        let subset = |ms, top1| LatencyView { ms, top1, ..LatencyView::default() };
        let mut latency = Latency {
            subsets: vec![
                subset(1.0, 70.0),
                subset(2.0, 69.0),
                subset(2.0, 75.0),
                subset(3.0, 75.0),
                subset(1.0, 70.0),
            ],
            ..Latency::default()
        };
        latency.mark_front();
        let front: Vec<_> = latency.subsets.iter().map(|s| s.front).collect();
        assert_eq!(front, [true, false, true, false, true], "equals do not beat each other");
    }
}
