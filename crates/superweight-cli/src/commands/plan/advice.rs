//! What to change when a budget cannot be met: the same request with one thing changed, tried.

use anyhow::{Error, anyhow};
use superweight::plan::number::grouped;
use superweight::plan::{Clustering, PlanError, PlanRequest, Survey, TilingChoice};

/// The error, with the smallest feasible budget and the changes that would help.
pub fn explain(error: PlanError, request: &PlanRequest, survey: &Survey) -> Error {
    let mut text = format!("{error}\n\nthe smallest feasible budget is {}", grouped(survey.minimum));
    if survey.minimum > 0 && survey.dense_total > 0 {
        text += &format!(" ({:.2}% of what the members have)", percent(survey.minimum, survey.dense_total));
    }
    let budget = request.budget.unwrap_or(0);
    let mut changes: Vec<(u64, &str)> = changes(request)
        .into_iter()
        .filter_map(|(request, words)| Some((request.survey().ok()?.minimum, words)))
        .filter(|&(minimum, _)| minimum < survey.minimum)
        .collect();
    changes.sort_by_key(|&(minimum, _)| minimum);
    changes.dedup_by_key(|&mut (minimum, _)| minimum); // the sort is stable: the smallest change of equals stays
    let fixed = fixed(request);
    match changes.first() {
        Some((best, _)) if *best <= budget => text += "\nany of these meets the budget:",
        Some(_) => text += "\nthese come closer:",
        None => text += "\nuse narrower or fewer members",
    }
    for (minimum, words) in changes {
        text += &format!("\n  {words:<42} needs {}", grouped(minimum));
    }
    if fixed > budget {
        let (fixed, budget) = (grouped(fixed), grouped(budget));
        text += &format!(
            "\nbatch norm, stem and classifiers alone are {fixed}: no sharing of layers brings them to {budget}"
        );
    }
    anyhow!(text)
}

/// What no choice of clusters or tiling can share.
fn fixed(request: &PlanRequest) -> u64 {
    let dense = PlanRequest { clusters: Clustering::Dense, budget: None, ..request.clone() };
    let shared = Clustering::Single;
    let Ok(plan) = dense.plan() else { return 0 };
    let layers: Vec<_> = plan.layers().cloned().collect();
    let clusters = shared.partition(&layers, request.share).unwrap_or_default();
    plan.bill.total() - clusters.iter().flatten().map(|id| layers[id.0].len()).sum::<u64>()
}

fn changes(request: &PlanRequest) -> Vec<(PlanRequest, &'static str)> {
    let with = |change: &dyn Fn(&mut PlanRequest)| {
        let mut request = request.clone();
        change(&mut request);
        request
    };
    vec![
        (with(&|r| r.clusters = Clustering::Single), "--clusters single"),
        (with(&|r| r.tiling = TilingChoice::Auto), "--tiling auto"),
        (with(&|r| r.block = None), "without --block"),
        (with(&|r| r.block = Some(8)), "--block 8"),
        (with(&|r| r.reserve = 0.0), "--reserve 0 (no refinement)"),
        (
            with(&|r| (r.clusters, r.tiling, r.block) = (Clustering::Single, TilingChoice::Auto, None)),
            "--clusters single --tiling auto",
        ),
    ]
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole as f64
}
