//! Scores of members and ensembles against numpy and scikit-learn (`fixtures/metrics.py`), to 1e-6.

use serde::Deserialize;
use superweight::evaluate::{Predictions, evaluate_subsets};
use superweight::model::Subset;

#[derive(Deserialize)]
struct Case {
    name: String,
    classes: usize,
    labels: Vec<u16>,
    logits_times_8: Vec<Vec<i32>>,
    subsets: Vec<Expected>,
    diversity: Option<f64>,
}

#[derive(Deserialize)]
struct Expected {
    members: Vec<usize>,
    top1: f64,
    top5: f64,
    nll: f64,
    ece: f64,
}

#[test]
fn every_subset_scores_as_in_numpy() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("fixtures/metrics.json")).unwrap();
    assert_eq!(cases.len(), 8);
    for case in cases {
        let logits =
            |member: &Vec<i32>| member.iter().map(|&eighths| eighths as f32 / 8.0).collect();
        let members = case.logits_times_8.iter().map(logits).collect();
        let predictions = Predictions::new(case.classes, case.labels, members).unwrap();
        let scored = evaluate_subsets(&predictions, &Subset::every(predictions.outputs()));
        assert_eq!(scored.len(), case.subsets.len(), "{}", case.name);
        for (ours, expected) in scored.iter().zip(&case.subsets) {
            assert_eq!(Vec::from(ours.subset), expected.members);
            let scores = ours.scores();
            let pairs = [
                ("top1", scores.top1, expected.top1),
                ("top5", scores.top5, expected.top5),
                ("nll", scores.nll, expected.nll),
                ("ece", scores.ece, expected.ece),
            ];
            for (score, ours, theirs) in pairs {
                assert!(
                    (ours - theirs).abs() < 1e-6,
                    "{} {score}: {ours}, numpy {theirs}",
                    case.name
                );
            }
        }
        match (predictions.diversity(), case.diversity) {
            (Some(ours), Some(theirs)) => assert!((ours - theirs).abs() < 1e-6, "{}", case.name),
            (ours, theirs) => assert_eq!(ours, theirs, "{}", case.name),
        }
    }
}
