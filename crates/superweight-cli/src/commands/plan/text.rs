//! `swn plan` as text of at most 100 columns: the request, the plan, its clusters and its bill.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use superweight::plan::arch::ArchName;
use superweight::plan::number::with_commas;
use superweight::plan::{
    ClusterId, Coefficients, Family, Layer, LayerKind, PlanRequest, SetId, SharingPlan, Survey,
    TemplateSet, Tiling,
};
use superweight::recipe::Resolved;

use crate::ui::table;

/// Most clusters that are printed.
const SHOWN_CLUSTERS: usize = 40;

/// The totals of a cluster.
pub struct ClusterSummary<'a> {
    /// Families of its layers, such as `3×3`; several if its templates are read from a bank.
    pub kernels: String,
    pub layers: Vec<&'a Layer>,
    pub superweights: usize,
    /// Number of templates of every set.
    pub templates: Vec<usize>,
    /// Parameters of its templates.
    pub parameters: u64,
    /// Parameters of its bank that no layer reads.
    pub unused: u64,
    pub coefficients: u64,
}

pub fn planned(
    plan: &SharingPlan,
    survey: &Survey,
    choices: &str,
    recipe: Option<&Resolved>,
) -> String {
    let mut text = members(plan);
    text += &headed("request", choices);
    let _ = writeln!(text, "result     feasible: {}", totals(plan));
    let _ = writeln!(
        text,
        "           the smallest feasible budget is {}",
        with_commas(survey.min_budget)
    );
    let _ = writeln!(text, "tiling     {}", why(plan, survey));
    if plan.budget.is_some_and(|budget| budget >= survey.dense_total)
        && plan.tiling != Tiling::Dense
    {
        let _ = writeln!(
            text,
            "note       the budget allows every layer its own weights: '--clusters dense' plans without sharing"
        );
    }
    if let Some(phases) = recipe.and_then(phases) {
        text += &headed("note", &phases);
    }
    text + &unused(plan) + &body(plan)
}

/// A note about parameters that no layer uses.
fn unused(plan: &SharingPlan) -> String {
    match plan.unused_bank_parameters() {
        0 => String::new(),
        n => headed("note", &format!("no layer reads {} parameters of the banks", with_commas(n))),
    }
}

/// The phases of a recipe that change the plan during training.
fn phases(recipe: &Resolved) -> Option<String> {
    let epochs = |n| if n == 1 { "an epoch".to_owned() } else { format!("{n} epochs") };
    let search = recipe.search.as_ref().map(|search| epochs(search.epochs));
    let refine = recipe.refine.as_ref().map(|refine| epochs(refine.epoch));
    let search =
        search.map(|long| format!("a search of {long} comes first and decides which layers share"));
    let refine = refine.map(|long| format!("coefficients are refined after {long} of training"));
    let phases: Vec<_> = [search, refine].into_iter().flatten().collect();
    (!phases.is_empty()).then(|| phases.join("; "))
}

pub fn shown(plan: &SharingPlan, path: &Path) -> String {
    let mut text = format!("plan       {}\n", path.display());
    text += &members(plan);
    let _ = writeln!(text, "result     {}", totals(plan));
    let _ = writeln!(text, "tiling     {}", plan.tiling);
    text + &unused(plan) + &body(plan)
}

/// The settings of a request, defaults included.
pub fn choices(request: &PlanRequest, clusters: &str) -> String {
    let coefficients = match request.coefficients {
        Coefficients::Shared => "shared",
        Coefficients::PerLayer => "own",
        Coefficients::Explicit(_) => "given",
    };
    let mut words = vec![
        format!("clusters {clusters}"),
        format!("tiling {}", request.tiling),
        format!("coefficients {coefficients}"),
        format!("reserve {}", request.reserve),
    ];
    words.extend(request.block.map(|block| format!("block {block}")));
    words.extend(request.scale.map(|scale| format!("scale {scale}")));
    words.extend(request.shared_roles.stem.then(|| "stem shared".to_owned()));
    let classifiers = |shared| if shared { "classifiers shared" } else { "classifiers not shared" };
    words.extend(request.shared_roles.classifier.map(|shared| classifiers(shared).to_owned()));
    words.join(", ")
}

/// An architecture's name, cut to 24 characters.
fn short(name: &ArchName) -> String {
    let name = name.to_string();
    if name.len() <= 24 { name } else { format!("{}…", &name[..23]) }
}

/// A line with a heading, broken between words at 100 columns.
fn headed(head: &str, words: &str) -> String {
    let mut text = format!("{head:<10}");
    let mut column = text.chars().count();
    for word in words.split(' ') {
        let width = word.chars().count();
        if column + 1 + width > 100 {
            let _ = write!(text, "\n{:<10}", "");
            column = 10;
        }
        let _ = write!(text, " {word}");
        column += 1 + width;
    }
    text + "\n"
}

/// The members of a plan and its budget.
fn members(plan: &SharingPlan) -> String {
    let mut text = String::new();
    for (i, group) in plan.members.chunk_by(|a, b| a == b).enumerate() {
        let member = &group[0];
        let (times, input) = (group.len(), member.input);
        let times = if times == 1 { String::new() } else { format!("{times} × ") };
        let each = member.build().expect("the members of a plan build").counts();
        let line = format!(
            "{times}{} for {}×{}×{} images, {} classes: {} parameters, {:.2} G multiply-adds",
            short(&member.architecture),
            input.channels,
            input.height,
            input.width,
            member.classes,
            with_commas(each.total()),
            each.multiply_adds as f64 / 1e9,
        );
        text += &headed(if i == 0 { "members" } else { "" }, &line);
    }
    let dense = plan.dense_total();
    if let Some(budget) = plan.budget {
        let share = 100.0 * budget as f64 / dense as f64;
        let _ = writeln!(
            text,
            "budget     {} = {share:.2}% of {} without sharing",
            with_commas(budget),
            with_commas(dense)
        );
    }
    text
}

fn totals(plan: &SharingPlan) -> String {
    let total = with_commas(plan.bill.total());
    match (plan.budget, plan.unused()) {
        (Some(budget), Some(unused)) => {
            format!(
                "{total} parameters, {} left over ({:.2}%)",
                with_commas(unused),
                100.0 * unused as f64 / budget as f64
            )
        }
        _ => format!("{total} parameters"),
    }
}

/// A tiling in words.
fn describe(tiling: Tiling) -> String {
    match tiling {
        Tiling::Dense => "dense: nothing is shared".to_owned(),
        Tiling::Nested => "nested".to_owned(),
        Tiling::Grid { block } => format!("a grid of {block}×{block}"),
        Tiling::Kronecker { block } => format!("patterns times blocks of {block}×{block}"),
        Tiling::Stretched => "stretched: templates are read from banks".to_owned(),
        Tiling::RankOne => {
            "rank-one: layers of one shape share a matrix, each with its own factors".to_owned()
        }
    }
}

/// The tiling, and what the other choice would need.
fn why(plan: &SharingPlan, survey: &Survey) -> String {
    let (Some(nested), Some((blocks, needed))) = (survey.nested_min_budget, survey.blocks) else {
        return describe(plan.tiling);
    };
    let (nested, blocks, needed) = (with_commas(nested), describe(blocks), with_commas(needed));
    match plan.tiling {
        Tiling::Dense | Tiling::Stretched | Tiling::RankOne => describe(plan.tiling),
        Tiling::Nested => format!("nested (needs {nested}; {blocks} would need {needed})"),
        Tiling::Grid { .. } | Tiling::Kronecker { .. } => {
            format!("{blocks} (needs {needed}; nested would need {nested})")
        }
    }
}

fn body(plan: &SharingPlan) -> String {
    let mut text = String::new();
    let clusters = clusters(plan);
    if !clusters.is_empty() {
        let header = [
            "cluster",
            "layers",
            "largest",
            "SuperWeights",
            "sets",
            "templates",
            "parameters",
            "coefficients",
        ];
        let mut rows: Vec<_> =
            clusters.iter().enumerate().map(|(i, c)| cluster_row(i, c)).collect();
        let more = rows.len().saturating_sub(SHOWN_CLUSTERS);
        rows.truncate(SHOWN_CLUSTERS);
        let _ = write!(text, "\n{}", table::render(&header, &rows));
        if more > 0 {
            let _ = writeln!(text, "  and {more} more (--json lists all)");
        }
    }
    text + "\n" + bill(plan).trim_end()
}

fn cluster_row(index: usize, cluster: &ClusterSummary) -> Vec<String> {
    let largest = cluster.layers.iter().max_by_key(|l| l.len());
    let (least, most) = (cluster.templates.iter().min(), cluster.templates.iter().max());
    vec![
        format!("{index}  {}", cluster.kernels),
        cluster.layers.len().to_string(),
        largest.map_or(String::new(), |l| format!("{}×{}", l.out, l.inp)),
        cluster.superweights.to_string(),
        cluster.templates.len().to_string(),
        match (least, most) {
            (Some(least), Some(most)) if least != most => format!("{least}–{most}"),
            (Some(least), _) => least.to_string(),
            _ => String::new(),
        },
        with_commas(cluster.parameters),
        with_commas(cluster.coefficients),
    ]
}

fn bill(plan: &SharingPlan) -> String {
    let bill = &plan.bill;
    let share = |n: u64| format!("{:.2}%", 100.0 * n as f64 / bill.total() as f64);
    let rows: Vec<_> = [
        ("templates", bill.templates),
        ("coefficients", bill.coefficients),
        ("  reserved for refinement", bill.reserved),
        ("batch norm", bill.batch_norm),
        ("classifier", bill.classifier),
        ("dense (stem, unshared)", bill.dense),
        ("total", bill.total()),
    ]
    .map(|(part, n)| vec![part.to_owned(), with_commas(n), share(n)])
    .into();
    let shared = sets(plan).filter(|(_, set)| {
        let first = plan.clusters[set.cluster.0].layers[0];
        plan.layer(first).kind != LayerKind::Linear
    });
    let shared: u64 = shared.map(|(id, _)| plan.template_parameters(id)).sum();
    let convolutions = with_commas(shared + bill.dense);
    let table = table::render(&["bill", "parameters", "share"], &rows);
    match plan.tiling {
        // Banks make classifiers too, so convolutions have no count of their own.
        tiling if tiling.has_banks() => table,
        _ => table + &format!("  (convolution weights alone: {convolutions})"),
    }
}

/// The families of these layers, from large kernels to small.
pub fn kernels(layers: &[&Layer]) -> String {
    let families: BTreeSet<_> = layers.iter().map(|layer| layer.family()).collect();
    families.iter().rev().map(Family::to_string).collect::<Vec<_>>().join(", ")
}

fn sets(plan: &SharingPlan) -> impl Iterator<Item = (SetId, &TemplateSet)> {
    plan.template_sets.iter().enumerate().map(|(i, set)| (SetId(i), set))
}

pub fn clusters(plan: &SharingPlan) -> Vec<ClusterSummary<'_>> {
    let summary = |(i, cluster): (usize, &superweight::plan::Cluster)| {
        let sets = || sets(plan).filter(move |(_, set)| set.cluster == ClusterId(i));
        let superweights =
            || plan.superweights.iter().filter(move |s| plan.set(s.set).cluster == ClusterId(i));
        let coefficients =
            superweights().flat_map(|s| &s.groups).map(|g| (g.shape[0] * g.shape[1]) as u64);
        let layers: Vec<_> = cluster.layers.iter().map(|&id| plan.layer(id)).collect();
        let factors: u64 = sets().map(|(id, _)| plan.factor_parameters(id)).sum();
        ClusterSummary {
            kernels: kernels(&layers),
            superweights: superweights().count(),
            templates: sets().map(|(_, set)| set.templates).collect(),
            parameters: plan.cluster_parameters(ClusterId(i)),
            unused: plan.unused_bank_parameters_of(ClusterId(i)),
            coefficients: factors + coefficients.sum::<u64>(),
            layers,
        }
    };
    plan.clusters.iter().enumerate().map(summary).collect()
}
