//! Advice for a budget that is too small: flags that lower the smallest feasible budget, each
//! tried.

use serde::Serialize;
use superweight::plan::number::with_commas;
use superweight::plan::{Clustering, Coefficients, PlanError, PlanRequest, Survey, TilingChoice};

/// A change of flags, and the smallest feasible budget with it.
#[derive(Serialize)]
pub struct Change {
    pub change: String,
    pub min_budget: u64,
    pub feasible: bool,
}

/// The error, with the smallest feasible budget and the changes that help.
pub fn explain(error: &PlanError, request: &PlanRequest, survey: &Survey) -> String {
    let percent = 100.0 * survey.min_budget as f64 / survey.dense_total as f64;
    let mut text = format!("{error},\n{percent:.2}% of what the members have without sharing");
    let changes = changes(request, survey);
    match changes.first() {
        Some(first) if first.feasible => text += "\nany of these meets the budget:",
        Some(_) => text += "\nthese come closer (or use narrower or fewer members):",
        None => text += "\nuse narrower or fewer members",
    }
    for Change { change, min_budget, .. } in &changes {
        text += &format!("\n  {change:<54} needs {}", with_commas(*min_budget));
    }
    text
}

/// Changes that meet the budget, small ones first; if there is none, those that come closer.
pub fn changes(request: &PlanRequest, survey: &Survey) -> Vec<Change> {
    let budget = request.budget.unwrap_or(u64::MAX);
    let tried = candidates(request).into_iter().filter_map(|(request, change)| {
        let min_budget = request.survey().ok()?.min_budget;
        let lower = min_budget < survey.min_budget;
        lower.then_some(Change { change, min_budget, feasible: min_budget <= budget })
    });
    let mut changes: Vec<Change> = vec![];
    for change in tried {
        // A larger change must gain something over the smaller ones.
        if changes.iter().all(|smaller| change.min_budget < smaller.min_budget || !smaller.feasible)
        {
            changes.push(change);
        }
    }
    if changes.iter().any(|change| change.feasible) {
        changes.retain(|change| change.feasible);
    }
    changes.truncate(4);
    changes
}

/// Single changes first, then all that lift a restriction together, then those with shared
/// classifiers.
fn candidates(request: &PlanRequest) -> Vec<(PlanRequest, String)> {
    type Step = (&'static str, bool, fn(&mut PlanRequest));
    let shared = request.shared_roles.classifier == Some(true);
    let lifts: [Step; 3] = [
        ("--clusters single", request.clusters != Clustering::Single, |r| {
            r.clusters = Clustering::Single
        }),
        ("--tiling auto", request.tiling != TilingChoice::Auto, |r| r.tiling = TilingChoice::Auto),
        ("without --block", request.block.is_some(), |r| r.block = None),
    ];
    let own = request.coefficients != Coefficients::Shared;
    let others: [Step; 7] = [
        ("--block 8", request.block != Some(8), |r| r.block = Some(8)),
        ("--reserve 0 (no refinement)", request.reserve > 0.0, |r| r.reserve = 0.0),
        ("--share-classifier", !shared, |r| r.shared_roles.classifier = Some(true)),
        ("--share-stem", !request.shared_roles.stem, |r| r.shared_roles.stem = true),
        ("--coefficients shared", own, |r| r.coefficients = Coefficients::Shared),
        ("--share-classifier=false", request.shared_roles.classifier != Some(false), |r| {
            r.shared_roles.classifier = Some(false)
        }),
        ("--tiling grid", request.tiling != TilingChoice::Grid, |r| r.tiling = TilingChoice::Grid),
    ];
    let apply = |steps: &[&Step]| {
        let mut changed = request.clone();
        steps.iter().for_each(|(_, _, change)| change(&mut changed));
        (changed, steps.iter().map(|(words, ..)| *words).collect::<Vec<_>>().join(" "))
    };
    let useful: Vec<&Step> = lifts.iter().filter(|(_, useful, _)| *useful).collect();
    let mut all: Vec<_> = useful.iter().map(|step| apply(&[step])).collect();
    all.extend(others.iter().filter(|(_, useful, _)| *useful).map(|step| apply(&[step])));
    if useful.len() > 1 {
        all.push(apply(&useful));
    }
    if !shared && !useful.is_empty() {
        all.push(apply(&[&useful[..], &[&others[2]]].concat()));
    }
    all
}
