//! Figures of one set of images as they are printed: percent, every subset, and averages over corrupted sets.

use serde::{Deserialize, Serialize};

use super::metrics::{Bin, Scores, or_nan};
use super::predictions::Predictions;
use crate::model::Subset;
use super::subsets::{SubsetScores, evaluate_subsets};
use crate::corrupt::{Corruption, Severity};
use crate::model::{OutputId, Outputs};

/// Figures of one network or ensemble, in percent but for the NLL.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Images whose most probable class is right.
    #[serde(deserialize_with = "or_nan")]
    pub top1: f64,
    /// Images whose class is among the five most probable.
    #[serde(deserialize_with = "or_nan")]
    pub top5: f64,
    /// Mean negative log-likelihood.
    #[serde(deserialize_with = "or_nan")]
    pub nll: f64,
    /// Expected calibration error.
    #[serde(deserialize_with = "or_nan")]
    pub ece: f64,
}

impl From<Scores> for Figures {
    fn from(scores: Scores) -> Self {
        let Scores { top1, top5, nll, ece, .. } = scores;
        Self { top1: 100.0 * top1, top5: 100.0 * top5, nll, ece: 100.0 * ece }
    }
}

impl Figures {
    /// The mean of each figure by itself, as tables over corruptions have it.
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

/// One subset of members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubsetReport {
    /// Which members.
    pub members: Subset,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
    /// Bars of the reliability diagram, where it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reliability: Vec<Bin>,
}

/// One set of images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetReport {
    /// How many.
    pub images: usize,
    /// Those that were looked at, small ones first.
    pub subsets: Vec<SubsetReport>,
    /// Of all members; see [`diversity`](super::diversity).
    pub diversity: Option<f64>,
}

impl SetReport {
    /// These subsets ([`evaluate_subsets`]), with reliability diagrams.
    pub fn new(predictions: &Predictions, subsets: &[Subset]) -> Self {
        Self::of(predictions, evaluate_subsets(predictions, subsets), true)
    }

    /// Of these the single members and all together only, without diagrams: enough for a corrupted set.
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

    /// The figures of one subset.
    pub fn figures(&self, subset: Subset) -> Option<Figures> {
        self.subsets.iter().find(|entry| entry.members == subset).map(|entry| entry.figures)
    }
}

/// One corrupted set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CorruptedReport {
    /// Type.
    #[serde(rename = "type")]
    pub kind: Corruption,
    /// 1 to 5.
    pub severity: Severity,
    /// Figures.
    #[serde(flatten)]
    pub report: SetReport,
}

/// Figures over several types at all severities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CorruptedAverage {
    /// Types averaged over.
    pub types: usize,
    /// Severities averaged over.
    pub severities: usize,
    /// Every subset that the sets have.
    pub subsets: Vec<SubsetReport>,
}

/// The mean over these types; none where one of them was not evaluated at every severity that another was.
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

/// The member's number and architecture, or what an ensemble consists of; exits are of one architecture.
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
    fn averages_are_of_complete_tables_only() {
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
