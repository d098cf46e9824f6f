//! Figures of one set of images as they are printed: in percent, for every subset, and as means
//! over corrupted sets.

use serde::{Deserialize, Deserializer, Serialize};

use super::metrics::{Bin, Scores};
use super::predictions::Predictions;
use super::subsets::{SubsetScores, evaluate_subsets};
use crate::corrupt::{Corruption, Severity};
use crate::model::{OutputId, Outputs, Subset};

/// Figures of one network or ensemble; accuracies and calibration error are in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Images whose most probable class is the label, in percent.
    #[serde(deserialize_with = "or_nan")]
    pub top1: f64,
    /// Images whose label is among the five most probable classes, in percent.
    #[serde(default = "nan", deserialize_with = "or_nan")]
    pub top5: f64,
    /// Mean negative log-likelihood.
    #[serde(default = "nan", deserialize_with = "or_nan")]
    pub nll: f64,
    /// Expected calibration error in percent.
    #[serde(default = "nan", deserialize_with = "or_nan")]
    pub ece: f64,
}

/// A number, or NaN where JSON has `null`.
fn or_nan<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

fn nan() -> f64 {
    f64::NAN
}

impl From<Scores> for Figures {
    fn from(scores: Scores) -> Self {
        let Scores { top1, top5, nll, ece, .. } = scores;
        Self { top1: 100.0 * top1, top5: 100.0 * top5, nll, ece: 100.0 * ece }
    }
}

impl Figures {
    /// The mean of each figure, as published tables over corruptions state it.
    fn mean(all: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        Self {
            top1: mean(|f| f.top1),
            top5: mean(|f| f.top5),
            nll: mean(|f| f.nll),
            ece: mean(|f| f.ece),
        }
    }
}

/// Figures of one subset of the outputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubsetReport {
    /// Members or exits of the subset.
    pub members: Subset,
    /// Figures of their mean probabilities.
    #[serde(flatten)]
    pub figures: Figures,
    /// Bins of the reliability diagram; empty unless requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reliability: Vec<Bin>,
}

/// Figures of every subset of the outputs on one set of images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetReport {
    /// Number of images.
    pub images: usize,
    /// Figures of each evaluated subset, small subsets first.
    pub subsets: Vec<SubsetReport>,
    /// Diversity of all outputs; see [`diversity`](super::diversity).
    pub diversity: Option<f64>,
}

impl SetReport {
    /// Figures and reliability diagrams of these subsets, in their order (see
    /// [`evaluate_subsets`]).
    pub fn new(predictions: &Predictions, subsets: &[Subset]) -> Self {
        Self::of(predictions, evaluate_subsets(predictions, subsets), true)
    }

    /// Figures of single outputs and of all together, without diagrams: enough for a corrupted set.
    /// `subsets` is the complete list, as for [`SetReport::new`].
    pub fn brief(predictions: &Predictions, subsets: &[Subset]) -> Self {
        let outputs = predictions.outputs();
        let mut scored = evaluate_subsets(predictions, subsets);
        scored.retain(|scored| scored.subset.len() == 1 || scored.subset.len() == outputs);
        Self::of(predictions, scored, false)
    }

    fn of(predictions: &Predictions, scored: Vec<SubsetScores>, reliability: bool) -> Self {
        let subset = |scored: &SubsetScores| SubsetReport {
            members: scored.subset,
            figures: scored.scores().into(),
            reliability: if reliability { scored.tally.reliability().to_vec() } else { vec![] },
        };
        Self {
            images: predictions.labels().len(),
            subsets: scored.iter().map(subset).collect(),
            diversity: predictions.diversity(),
        }
    }

    /// Figures of one subset, if it was evaluated.
    pub fn figures(&self, subset: Subset) -> Option<Figures> {
        self.subsets.iter().find(|entry| entry.members == subset).map(|entry| entry.figures)
    }

    /// Figures of all outputs together: the largest subset.
    pub fn ensemble(&self) -> Option<Figures> {
        self.subsets.iter().max_by_key(|entry| entry.members.len()).map(|entry| entry.figures)
    }
}

/// Figures on images of one corruption at one severity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CorruptedReport {
    /// The corruption; `type` in JSON.
    #[serde(rename = "type")]
    pub kind: Corruption,
    /// Severity from 1 to 5.
    pub severity: Severity,
    /// Figures on the corrupted images.
    #[serde(flatten)]
    pub report: SetReport,
}

/// Mean figures over several corruptions and severities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CorruptedAverage {
    /// Number of corruptions in the mean.
    pub types: usize,
    /// Number of severities in the mean.
    pub severities: usize,
    /// Mean figures of every subset that the sets have.
    pub subsets: Vec<SubsetReport>,
}

/// The mean over these corruptions; none if one of them lacks a severity that another has.
pub fn average(reports: &[CorruptedReport], kinds: &[Corruption]) -> Option<CorruptedAverage> {
    let of_kinds: Vec<_> = reports.iter().filter(|report| kinds.contains(&report.kind)).collect();
    let mut severities: Vec<_> = of_kinds.iter().map(|report| report.severity).collect();
    severities.sort();
    severities.dedup();
    if of_kinds.is_empty() || of_kinds.len() != kinds.len() * severities.len() {
        return None;
    }
    let mean = |entry: &SubsetReport| {
        let all: Option<Vec<_>> =
            of_kinds.iter().map(|r| r.report.figures(entry.members)).collect();
        Some(SubsetReport {
            members: entry.members,
            figures: Figures::mean(&all?),
            reliability: vec![],
        })
    };
    let subsets = of_kinds[0].report.subsets.iter().map(mean).collect::<Option<_>>()?;
    Some(CorruptedAverage { types: kinds.len(), severities: severities.len(), subsets })
}

/// Name of a subset in a table: index and architecture of a single member, the indices of an
/// ensemble. Exits have one architecture, which is left out.
pub fn subset_name(subset: Subset, outputs: &Outputs) -> String {
    match subset.outputs().next() {
        Some(OutputId(only)) if subset.len() == 1 && !outputs.nested() => {
            format!("{only} {}", outputs.names()[only])
        }
        _ => outputs.brief(subset),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(kind: Corruption, severity: u64, top1: f64) -> CorruptedReport {
        let figures = Figures { top1, top5: 100.0, nll: 1.0, ece: 2.0 };
        let subsets = vec![SubsetReport { members: Subset::all(1), figures, reliability: vec![] }];
        let report = SetReport { images: 10, subsets, diversity: None };
        CorruptedReport { kind, severity: Severity::new(severity).unwrap(), report }
    }

    #[test]
    fn a_mean_needs_every_severity_of_every_corruption() {
        let (fog, snow) = (Corruption::Fog, Corruption::Snow);
        let mut reports = vec![report(fog, 1, 80.0), report(fog, 5, 40.0), report(snow, 1, 70.0)];
        assert_eq!(average(&reports, &[fog]).unwrap().subsets[0].figures.top1, 60.0);
        assert_eq!(average(&reports, &[fog, snow]), None);
        reports.push(report(snow, 5, 50.0));
        let both = average(&reports, &[fog, snow]).unwrap();
        assert_eq!((both.types, both.severities, both.subsets[0].figures.top1), (2, 2, 60.0));
        assert_eq!(average(&reports, &[Corruption::Frost]), None);
    }
}
