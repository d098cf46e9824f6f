//! An evaluation as the page draws it: scores of every subset, calibration, corruptions, latency,
//! interpolation. Shares are in percent, as in the paper's tables.

use serde::Serialize;

use crate::model::OutputId;
use crate::model::Subset;

/// Everything that `swn eval` and `swn anytime` wrote into a run folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Evaluation {
    /// `test` or `validation`.
    pub split: String,
    /// Description of the images.
    pub on: String,
    /// Number of images.
    pub images: u64,
    /// Whether the figures are of an older checkpoint or of some of the images, and therefore not
    /// the run's result.
    pub partial: bool,
    /// Scores of every evaluated subset of the outputs.
    pub subsets: Vec<SubsetView>,
    /// Diversity of all outputs.
    pub diversity: Option<f64>,
    /// Accuracy under every corruption.
    pub corruptions: Option<Corruptions>,
    /// Time of every subset.
    pub latency: Option<Latency>,
    /// Accuracy between two members.
    pub interpolations: Vec<Interpolation>,
}

/// Scores of one subset.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SubsetView {
    /// Members or exits of the subset.
    pub members: Subset,
    /// Top-1 accuracy in percent.
    pub top1: f64,
    /// Top-5 accuracy in percent.
    pub top5: Option<f64>,
    /// Mean negative log-likelihood.
    pub nll: Option<f64>,
    /// Expected calibration error in percent.
    pub ece: Option<f64>,
    /// Bins of the reliability diagram, from confidence 0 to 1.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<BinView>,
}

/// A bin of a reliability diagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BinView {
    /// Number of images in the bin.
    pub images: u64,
    /// Mean confidence in percent.
    pub confidence: f64,
    /// Accuracy in percent.
    pub accuracy: f64,
}

/// Accuracy of all outputs together on corrupted images.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Corruptions {
    /// Origin of the images: `regenerated`, or the folder of the published files.
    pub source: String,
    /// One row per corruption.
    pub kinds: Vec<CorruptionRow>,
    /// Mean top-1 accuracy over the standard corruptions, in percent.
    pub mean_top1: Option<f64>,
    /// Mean NLL over the standard corruptions.
    pub mean_nll: Option<f64>,
    /// Mean ECE over the standard corruptions, in percent.
    pub mean_ece: Option<f64>,
}

/// Accuracy under one corruption.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CorruptionRow {
    /// Name of the corruption, such as `gaussian noise`.
    pub name: String,
    /// Top-1 accuracy in percent at severities 1, 2, …; none where it was not measured.
    pub top1: Vec<Option<f64>>,
}

/// Accuracy and time of every subset on one device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Description of the device.
    pub device: String,
    /// Images per call.
    pub batch_size: u64,
    /// One entry per subset.
    pub subsets: Vec<LatencyView>,
}

/// Accuracy and time of one subset.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LatencyView {
    /// Members or exits of the subset.
    pub members: Subset,
    /// Median time in milliseconds.
    pub ms: f64,
    /// 99th percentile of the time in milliseconds.
    pub p99: Option<f64>,
    /// Top-1 accuracy in percent.
    pub top1: f64,
    /// Whether no other subset is at least as accurate and at least as fast.
    pub front: bool,
}

/// Accuracy on the line between the weights of two members.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Interpolation {
    /// Member at t = 0.
    pub from: usize,
    /// Member at t = 1.
    pub to: usize,
    /// Weight of the second member, and top-1 accuracy in percent.
    pub points: Vec<(f64, f64)>,
}

impl Evaluation {
    /// Scores of the largest subset: all outputs together.
    pub fn ensemble(&self) -> Option<&SubsetView> {
        self.subsets.iter().max_by_key(|subset| subset.members.len())
    }

    /// Scores of one output.
    pub fn member(&self, member: usize) -> Option<&SubsetView> {
        self.subsets.iter().find(|subset| subset.members == Subset::one(OutputId(member)))
    }
}

impl Latency {
    /// Marks the subsets that no other subset beats: better in accuracy or time and not worse in
    /// the other.
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
    fn subsets_that_no_other_beats_are_the_front() {
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
