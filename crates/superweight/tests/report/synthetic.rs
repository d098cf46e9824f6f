//! Run folders with everything a report can show, made without training: planned, decided and saved
//! by the library itself, on similarities and figures that are drawn.

use std::path::{Path, PathBuf};

use superweight::model::Outputs;
use superweight::model::Subset;
use superweight::plan::{LayerId, SetId, SharingPlan};
use superweight::recipe::{Recipe, Resolved};
use superweight::report::{
    BinView, CorruptionRow, Corruptions, Evaluation, Interpolation, Latency, LatencyView,
    SubsetView,
};
use superweight::rng::Draws;
use superweight::run::{
    self, Accuracy, Checkpoint, DecisionEvent, Disk, EpochEvent, EvalEvent, Event, Existing,
    RunFolder, StartEvent, StopEvent, Tensor, TrainFigures, WarningEvent,
};
use superweight::search::{
    CoefficientGradient, Compared, PairStatistic, RefineStatistics, SearchStatistics, Statistics,
    decide_clusters, decide_groups, refinement_candidates,
};

/// A run on disk, with the recipe and statistics it was made from.
pub struct Made {
    pub path: PathBuf,
    pub resolved: Resolved,
    pub statistics: Statistics,
}

/// Writes the folder of a run that was trained with search and refinement. The log has `warning`
/// verbatim.
pub fn trained(runs: &Path, name: &str, recipe: &str, epochs: u64, warning: Option<&str>) -> Made {
    let overrides: [&str; 0] = [];
    let resolved = Recipe::parse("recipe.toml", recipe, &overrides).unwrap().resolve().unwrap();
    let draws = Draws::new(&[resolved.seed, 0x5e]);
    let start = resolved.plan_request().unwrap().plan().unwrap();
    let search = SearchStatistics {
        compared: Compared::Gradients(pairs(&start, draws.under(1))),
        plan: start,
    };
    let plan = decide_clusters(&resolved, &search).unwrap().plan;
    let refine = RefineStatistics { gradients: gradients(&plan, draws.under(2)), plan };
    let plan = decide_groups(&resolved, &refine).unwrap().plan;
    let statistics = Statistics { search: Some(search), refine: Some(refine) };

    let folder =
        RunFolder::create(runs, name, Existing::Refuse, recipe, &resolved.to_toml()).unwrap();
    statistics.save(&Disk::default(), &folder.statistics()).unwrap();
    write_log(&folder, &resolved, &plan, epochs, warning, draws.under(3));
    folder.checkpoints().save(1, &checkpoint(&plan, draws.under(4))).unwrap();
    Made { path: folder.path().to_owned(), resolved, statistics }
}

/// Similarities: high at similar depths, negative for some neighbours, as in the paper's figure.
fn pairs(start: &SharingPlan, draws: Draws) -> Vec<PairStatistic> {
    let mut last = vec![1; start.members.len()];
    start.layers().for_each(|layer| last[layer.member.0] = layer.depth.max(1));
    let depth = |id: LayerId| start.layer(id).depth as f64 / last[start.layer(id).member.0] as f64;
    let mut pairs = vec![];
    for cluster in &start.clusters {
        for (n, &b) in cluster.layers.iter().enumerate() {
            for &a in &cluster.layers[..n] {
                let kind = |id: LayerId| (start.layer(id).depth % 3) as f64;
                let near = (-((depth(a) - depth(b)) / 0.16).powi(2)).exp();
                let conflict = if kind(a) == kind(b) { 0.35 } else { -0.3 };
                let noise = 0.16 * draws.normal((a.0 * 4096 + b.0) as u64);
                let dot = (0.5 * near + conflict * near.sqrt() - 0.12 + noise).clamp(-0.99, 0.99);
                pairs.push(PairStatistic { a, b, dot, squares: [1.0, 1.0] });
            }
        }
    }
    pairs
}

fn gradients(plan: &SharingPlan, draws: Draws) -> Vec<CoefficientGradient> {
    let all = refinement_candidates(plan).into_iter();
    all.map(|(superweight, layer, shape)| {
        let common = draws.under(superweight.0 as u64).under((layer.0 % 3) as u64);
        let own = draws.under(77).under((superweight.0 * 4096 + layer.0) as u64);
        let [_, cols, k] = shape;
        let value = |n: usize| {
            // The same cell has the same place in every layer, however far it is clipped.
            let (row, col, k) = (n / (cols * k), n / k % cols, n % k);
            let place = ((row * 512 + col) * 4096 + k) as u64;
            (common.normal(place) + 0.5 * own.normal(place)) as f32
        };
        let values = (0..shape.iter().product()).map(value).collect();
        CoefficientGradient { superweight, layer, shape, values }
    })
    .collect()
}

fn checkpoint(plan: &SharingPlan, draws: Draws) -> Checkpoint {
    let mut checkpoint = Checkpoint { plan: plan.to_json(), ..Checkpoint::default() };
    for (i, set) in plan.template_sets.iter().enumerate() {
        let groups = plan.superweights.iter().filter(|s| s.set == SetId(i)).flat_map(|s| &s.groups);
        let rows: usize = groups.map(|group| group.shape[0]).sum();
        if set.templates > 1 {
            let draws = draws.under(i as u64);
            let values =
                (0..rows * set.templates).map(|n| draws.normal(n as u64) as f32 * 0.3).collect();
            let tensor = Tensor::new(&[rows, set.templates], values);
            checkpoint.bank.insert(&format!("coefficients.{i}"), tensor);
        }
    }
    checkpoint
}

/// Figures whose accuracy rises over the epochs, with a search of an eighth of them before.
fn write_log(
    folder: &RunFolder,
    resolved: &Resolved,
    plan: &SharingPlan,
    epochs: u64,
    warning: Option<&str>,
    draws: Draws,
) {
    let mut log = folder.log().unwrap();
    log.add(Event::Start(Box::new(StartEvent {
        version: "0".to_owned(),
        name: resolved.name.clone(),
        strategy: resolved.strategy,
        seed: resolved.seed,
        members: plan.members.iter().map(|member| member.architecture.to_string()).collect(),
        budget: plan.budget,
        bill: plan.bill,
        weight_decay: vec![],
        data: resolved.data.name.clone(),
        images: [45_000, 5_000, 10_000],
        test_every: 0,
    })))
    .unwrap();
    let outputs = Outputs::of_plan(plan).count();
    let scores =
        |top1: f64| Accuracy { top1, top5: 100.0 - (100.0 - top1) * 0.3, nll: 4.0 - top1 * 0.04 };
    for (phase, count) in [("search", epochs / 8 + 1), ("train", epochs)] {
        for epoch in 0..count {
            let progress = 1.0 - (-4.0 * (epoch + 1) as f64 / count as f64).exp();
            let noise = |member: usize| 0.6 * draws.under(member as u64).normal(epoch);
            let reach = if phase == "search" { 40.0 } else { 74.0 };
            let top1 = |m: usize| reach * progress + 2.0 - 1.3 * m as f64 + noise(m);
            let loss = |m: usize| 4.0 - 0.045 * top1(m);
            log.add(Event::Epoch(EpochEvent {
                phase: phase.to_owned(),
                epoch,
                epochs: count,
                loss: loss(0),
                train: TrainFigures {
                    loss: loss(0),
                    losses: (0..outputs).map(loss).collect(),
                    top1: (0..outputs).map(|m| top1(m) + 6.0 * progress).collect(),
                    zero_channels: vec![],
                    lr: 0.1 * (1.0 - progress),
                    seconds: 41.5,
                    images_per_s: 1084.0,
                },
                swa: 0,
                validation: (resolved.data.validation > 0).then(|| run::Evaluation {
                    images: 5000,
                    ensemble: scores(top1(0) + 2.4),
                    members: (0..outputs).map(|m| scores(top1(m))).collect(),
                }),
                test: None,
            }))
            .unwrap();
            if phase == "train" && epoch + 1 == count / 10 {
                log.add(Event::Refine(Box::new(decision(plan)))).unwrap();
            }
        }
        if phase == "search" {
            log.add(Event::Search(Box::new(decision(plan)))).unwrap();
        }
    }
    if let Some(warning) = warning {
        log.add(Event::Warning(WarningEvent { warning: warning.to_owned() })).unwrap();
    }
    let test = run::Evaluation {
        images: 10_000,
        ensemble: scores(78.42),
        members: (0..outputs).map(|m| scores(75.1 - 1.1 * m as f64)).collect(),
    };
    log.add(Event::Eval(EvalEvent { split: "test".to_owned(), test: Some(test) })).unwrap();
    let reason = StopEvent::FINISHED.to_owned();
    log.add(Event::Stop(StopEvent { reason, checkpoint: Some(1), what: None })).unwrap();
}

fn decision(plan: &SharingPlan) -> DecisionEvent {
    DecisionEvent {
        clusters_before: 1,
        clusters: plan.clusters.len(),
        sizes: plan.clusters.iter().map(|cluster| cluster.layers.len()).collect(),
        groups_before: 1,
        groups: 1,
        bill_before: plan.bill,
        bill: plan.bill,
        budget: plan.budget,
        tau: None,
        tau_used: None,
        beta: None,
        beta_used: None,
        k: None,
        k_used: None,
        relaxed: None,
    }
}

/// A run without shared layers, as it is before its first epoch.
pub fn unshared(runs: &Path) -> PathBuf {
    let recipe = "members = ['wrn-10-1']\nbudget = '100%'\nstrategy = 'no-search'\nplan.clusters = 'dense'\n[data]\nname = 'cifar-10'\n";
    let resolved = Recipe::parse("recipe.toml", recipe, &[] as &[&str]).unwrap().resolve().unwrap();
    let complete = resolved.to_toml();
    let folder = RunFolder::create(runs, "unshared", Existing::Refuse, recipe, &complete).unwrap();
    folder.path().to_owned()
}

/// An evaluation with figures of the usual size.
pub fn evaluation(outputs: &Outputs, seed: u64) -> Evaluation {
    let draws = Draws::new(&[seed, 0xe7]);
    let subsets = outputs.subsets().unwrap();
    let of = |subset: Subset| Vec::<usize>::from(subset);
    let top1 = |subset: Subset| {
        let subset = of(subset);
        let best = subset.iter().map(|m| 76.0 - 1.7 * *m as f64).fold(0.0, f64::max);
        best + 1.9 * (subset.len() as f64).ln()
            + 0.2 * draws.normal(subset.iter().map(|m| 1 << m).sum())
    };
    let cost = [9.3, 6.1, 4.4, 2.9];
    let ms =
        |subset: Subset| of(subset).iter().map(|m| cost[m % 4]).sum::<f64>() + 0.1 * seed as f64;
    let bins = |off: f64| -> Vec<BinView> {
        let bin = |i: u64| {
            let confidence = (i as f64 + 0.5) * 100.0 / 15.0;
            let accuracy =
                (confidence - off * (confidence * (100.0 - confidence) / 2500.0)).clamp(0.0, 100.0);
            BinView { images: 20 + i.pow(3) * 2, confidence, accuracy }
        };
        (0..15).map(bin).collect()
    };
    let kinds = [
        "gaussian noise",
        "shot noise",
        "impulse noise",
        "defocus blur",
        "glass blur",
        "motion blur",
        "zoom blur",
        "snow",
        "frost",
        "fog",
        "brightness",
        "contrast",
        "elastic transform",
        "pixelate",
        "jpeg compression",
    ];
    let kind = |(k, name): (usize, &&str)| CorruptionRow {
        name: (*name).to_owned(),
        top1: (1..=5u32).map(|s| Some(74.0 - f64::from(s) * (3.0 + (k * 7 % 11) as f64))).collect(),
    };
    let mut latency = Latency {
        device: "two cores".to_owned(),
        batch_size: 1,
        subsets: subsets
            .iter()
            .map(|s| LatencyView {
                members: *s,
                ms: ms(*s),
                p99: Some(ms(*s) * 1.3),
                top1: top1(*s),
                front: false,
            })
            .collect(),
    };
    latency.mark_front();
    let scores = |s: &Subset| SubsetView {
        members: *s,
        top1: top1(*s),
        top5: Some(93.0),
        nll: Some(1.1 - 0.1 * s.len() as f64),
        ece: Some(6.0 / s.len() as f64),
        bins: bins(8.0 / s.len() as f64),
    };
    let valley = |i: u32| {
        (
            f64::from(i) / 20.0,
            74.0 - 60.0 * (std::f64::consts::PI * f64::from(i) / 20.0).sin().powi(2),
        )
    };
    Evaluation {
        split: "test".to_owned(),
        on: "the test set".to_owned(),
        images: 10_000,
        partial: false,
        subsets: subsets.iter().map(scores).collect(),
        diversity: (outputs.count() > 1).then_some(0.74),
        corruptions: Some(Corruptions {
            source: "regenerated".to_owned(),
            kinds: kinds.iter().enumerate().map(kind).collect(),
            mean_top1: Some(52.9),
            mean_nll: Some(2.17),
            mean_ece: Some(10.3),
        }),
        latency: Some(latency),
        interpolations: vec![Interpolation {
            from: 0,
            to: 1 % outputs.count(),
            points: (0..=20).map(valley).collect(),
        }],
    }
}
