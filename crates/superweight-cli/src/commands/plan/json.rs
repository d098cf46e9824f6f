//! `swn plan --json`: one object with the same keys whether or not the budget can be met.

use super::advice::{Change, changes};
use serde::Serialize;
use superweight::plan::{Bill, PlanRequest, SharingPlan, Survey, Tiling};

#[derive(Serialize)]
struct Answer {
    feasible: bool,
    budget: Option<u64>,
    total: Option<u64>,
    unused: Option<u64>,
    min_budget: Option<u64>,
    dense_total: u64,
    members: Vec<String>,
    tiling: &'static str,
    block: Option<usize>,
    parts: Option<Bill>,
    clusters: Vec<ClusterAnswer>,
    /// Changes that meet the budget, or come closer, if it cannot be met.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    advice: Vec<Change>,
}

#[derive(Serialize)]
struct ClusterAnswer {
    kernel: String,
    layers: Vec<String>,
    superweights: usize,
    templates: Vec<usize>,
    template_numbers: u64,
    /// Parameters of a bank that no layer reads.
    #[serde(skip_serializing_if = "is_zero")]
    unseen: u64,
    coefficients: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

pub fn planned(plan: &SharingPlan, survey: &Survey) -> String {
    print(&Answer { min_budget: Some(survey.min_budget), ..answer(plan) })
}

/// An existing plan does not store its smallest feasible budget: `min_budget` is null.
pub fn shown(plan: &SharingPlan) -> String {
    print(&answer(plan))
}

pub fn infeasible(request: &PlanRequest, survey: &Survey) -> String {
    let (tiling, block) = words(survey.tiling);
    print(&Answer {
        feasible: false,
        budget: request.budget,
        total: None,
        unused: None,
        min_budget: Some(survey.min_budget),
        dense_total: survey.dense_total,
        members: request.members.iter().map(|m| m.architecture.to_string()).collect(),
        tiling,
        block,
        parts: None,
        clusters: vec![],
        advice: changes(request, survey),
    })
}

fn answer(plan: &SharingPlan) -> Answer {
    let (tiling, block) = words(plan.tiling);
    Answer {
        feasible: true,
        budget: plan.budget,
        total: Some(plan.bill.total()),
        unused: plan.unused(),
        min_budget: None,
        dense_total: plan.dense_total(),
        members: plan.members.iter().map(|m| m.architecture.to_string()).collect(),
        tiling,
        block,
        parts: Some(plan.bill),
        clusters: super::text::clusters(plan)
            .into_iter()
            .map(|c| ClusterAnswer {
                kernel: c.kernels,
                layers: c.layers.iter().map(|l| format!("{}/{}", l.member, l.name)).collect(),
                superweights: c.superweights,
                templates: c.templates,
                template_numbers: c.parameters,
                unseen: c.unused,
                coefficients: c.coefficients,
            })
            .collect(),
        advice: vec![],
    }
}

fn words(tiling: Tiling) -> (&'static str, Option<usize>) {
    match tiling {
        Tiling::Dense => ("dense", None),
        Tiling::Nested => ("nested", None),
        Tiling::Grid { block } => ("grid", Some(block)),
        Tiling::Kronecker { block } => ("kronecker", Some(block)),
        Tiling::Stretched => ("stretched", None),
        Tiling::RankOne => ("rank-one", None),
    }
}

fn print(answer: &Answer) -> String {
    serde_json::to_string_pretty(answer).expect("counts and strings only")
}
