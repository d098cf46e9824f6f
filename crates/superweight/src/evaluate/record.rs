//! The record of an evaluation: what `swn eval --json` prints and `evaluation/*.json` of a run
//! keeps.
//!
//! The command writes these types and the report reads them, so that the schema is stated once.
//! Accuracies and calibration errors are percentages. JSON has no NaN: a value that is not finite
//! is written as `null` and read back as NaN.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::report::{CorruptedAverage, CorruptedReport, Figures, SetReport};

/// An evaluation of a run's members or exits on one split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvaluationRecord {
    /// Folder of the run, as the user named it.
    pub run: PathBuf,
    /// Number of the evaluated checkpoint.
    pub checkpoint: u64,
    /// Digest of the checkpoint's files; empty in files of older programs.
    #[serde(default)]
    pub digest: String,
    /// Data set that the run was trained on.
    pub data: String,
    /// `test`, `validation`, or the name of another data set whose test images were used.
    pub split: String,
    /// Architecture of every member, or of every exit's network.
    pub members: Vec<String>,
    /// Whether the outputs are exits of one network.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exits: bool,
    /// Figures of every subset of the outputs.
    #[serde(flatten)]
    pub report: SetReport,
    /// Accuracy of each class, the lowest first; empty unless requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_class: Vec<ClassRecord>,
    /// Figures on corrupted images, where they were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corruptions: Option<CorruptionsRecord>,
    /// Figures between two members, where they were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interpolation: Option<InterpolationRecord>,
    /// Seconds of the forward pass over all images.
    #[serde(default)]
    pub pass_seconds: f64,
    /// Seconds that the figures of all subsets took after the pass.
    #[serde(default)]
    pub subsets_seconds: f64,
}

/// How often the images of one class are classified correctly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassRecord {
    /// Name of the class.
    pub class: String,
    /// Number of its images.
    pub images: usize,
    /// Number of its images that all outputs together classify correctly.
    pub correct: usize,
    /// The wrong class that is predicted most often for its images, and how often.
    pub taken_for: Option<(String, usize)>,
}

impl ClassRecord {
    /// Top-1 accuracy on the class in percent.
    pub fn top1(&self) -> f64 {
        100.0 * self.correct as f64 / self.images as f64
    }
}

/// Figures on corrupted images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CorruptionsRecord {
    /// [`REGENERATED`](Self::REGENERATED), or the folder of the published files.
    pub source: String,
    /// Seed of the corruptions' noise, where they were made here.
    pub seed: Option<u64>,
    /// Figures of each corruption at each severity.
    pub sets: Vec<CorruptedReport>,
    /// Means over the published lists of corruptions.
    pub averages: Vec<CorruptedAverage>,
}

impl CorruptionsRecord {
    /// Source of images that this program corrupted itself.
    pub const REGENERATED: &str = "regenerated";
}

/// Figures on the line between the weights of two members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterpolationRecord {
    /// Members at t = 0 and t = 1.
    pub members: [usize; 2],
    /// Figures at increasing t.
    pub points: Vec<InterpolationPoint>,
}

/// Figures at one point of the line between two members.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterpolationPoint {
    /// Weight of the second member, from 0 to 1.
    pub t: f64,
    /// Figures of the network with the interpolated weights.
    #[serde(flatten)]
    pub figures: Figures,
}

#[cfg(test)]
mod tests {
    use super::super::SubsetReport;
    use super::*;
    use crate::corrupt::{Corruption, Severity};
    use crate::model::Subset;

    #[test]
    fn a_record_is_read_back_as_it_was_written() {
        let figures = Figures { top1: 75.0, top5: 100.0, nll: 0.5, ece: 2.5 };
        let subset = SubsetReport { members: Subset::all(1), figures, reliability: vec![] };
        let report = SetReport { images: 8, subsets: vec![subset.clone()], diversity: None };
        let corrupted = CorruptedReport {
            kind: Corruption::Fog,
            severity: Severity::new(3).unwrap(),
            report: report.clone(),
        };
        let average = CorruptedAverage { types: 15, severities: 5, subsets: vec![subset] };
        let record = EvaluationRecord {
            run: "runs/a".into(),
            checkpoint: 3,
            digest: "d".to_owned(),
            data: "cifar-10".to_owned(),
            split: "validation".to_owned(),
            members: vec!["cnn-4".to_owned()],
            exits: false,
            report,
            by_class: vec![ClassRecord {
                class: "cat".to_owned(),
                images: 4,
                correct: 3,
                taken_for: Some(("dog".to_owned(), 1)),
            }],
            corruptions: Some(CorruptionsRecord {
                source: CorruptionsRecord::REGENERATED.to_owned(),
                seed: Some(1),
                sets: vec![corrupted],
                averages: vec![average],
            }),
            interpolation: Some(InterpolationRecord {
                members: [0, 1],
                points: vec![InterpolationPoint { t: 0.5, figures }],
            }),
            pass_seconds: 1.5,
            subsets_seconds: 0.25,
        };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<EvaluationRecord>(&text).unwrap(), record);
        for key in ["\"split\":\"validation\"", "\"correct\":3", "\"type\":\"fog\""] {
            assert!(text.contains(key), "{key}: {text}");
        }
    }

    #[test]
    fn a_value_that_is_not_finite_is_null_and_read_as_nan() {
        let figures = Figures { top1: 0.0, top5: 0.0, nll: f64::NAN, ece: 1.0 };
        let text = serde_json::to_string(&InterpolationPoint { t: 0.0, figures }).unwrap();
        assert!(text.contains("\"nll\":null"), "{text}");
        let read: InterpolationPoint = serde_json::from_str(&text).unwrap();
        assert!(read.figures.nll.is_nan());
    }
}
