//! What search or refinement has decided, by which threshold, and what the new plan costs.

use superweight::plan::number::with_commas;
use superweight::search::{Threshold, groups};
use superweight::train::{Decided, Stage};

use super::layout::{bill, count};

pub fn lines(decided: &Decided) -> Vec<String> {
    let plan = &decided.decision.plan;
    let Threshold { name, requested, relaxed, .. } = &decided.decision.threshold;
    let mut lines = match decided.stage {
        Stage::Search => searched(decided),
        Stage::Train => vec![refined(decided)],
    };
    if let Some(reason) = relaxed {
        lines.push(format!("relaxed    {name} = {} was requested: {reason}", number(*requested)));
    }
    lines.push(format!("parameters {}", bill(plan)));
    if decided.reinit {
        lines.push("           all of them start again from new initial values".to_owned());
    }
    lines
}

fn searched(Decided { before, decision, .. }: &Decided) -> Vec<String> {
    let plan = &decision.plan;
    let sizes: Vec<_> =
        plan.clusters.iter().map(|cluster| cluster.layers.len().to_string()).collect();
    let layers: usize = before.clusters.iter().map(|cluster| cluster.layers.len()).sum();
    let mut lines = vec![
        format!(
            "searched   {layers} layers: {} {} {}, by {}",
            count(before.clusters.len(), "cluster"),
            becomes(before.clusters.len()),
            count(plan.clusters.len(), "cluster"),
            by(&decision.threshold),
        ),
        shortened("clusters of ", &sizes, " layers"),
    ];
    if plan.clusters.len() == layers && before.clusters.len() < layers {
        lines.push(format!(
            "           no two layers share; a smaller {} keeps more of them together",
            key(decision.threshold.name)
        ));
    }
    lines
}

fn refined(Decided { before, decision, .. }: &Decided) -> String {
    let plan = &decision.plan;
    format!(
        "refined    {} of coefficients {} {}, by {}; {} coefficients become {}",
        count(groups(before), "group"),
        becomes(groups(before)),
        with_commas(groups(plan) as u64),
        by(&decision.threshold),
        with_commas(before.bill.coefficients),
        with_commas(plan.bill.coefficients),
    )
}

/// `τ = 0.1`.
fn by(threshold: &Threshold) -> String {
    format!("{} = {}", threshold.name, number(threshold.used))
}

/// The recipe's key of a threshold.
fn key(name: &str) -> &'static str {
    if name == "k" { "search.clusters" } else { "search.tau" }
}

fn becomes(n: usize) -> &'static str {
    if n == 1 { "becomes" } else { "become" }
}

/// A threshold as typed, or with four digits.
fn number(x: f64) -> String {
    let short = format!("{x:.4}");
    if x.to_string().len() <= short.len() { x.to_string() } else { short }
}

/// One line of items, cut where it would be too long.
fn shortened(before: &str, items: &[String], after: &str) -> String {
    const WIDTH: usize = 60;
    let mut text = items.join(" ");
    if text.len() > WIDTH {
        text.truncate(text[..WIDTH].rfind(' ').unwrap_or(WIDTH));
        text += " …";
    }
    format!("           {before}{text}{after}")
}
