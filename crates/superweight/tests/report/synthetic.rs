//! Run folders with everything a report can show, made without training: planned, decided and saved by the library
//! itself, on similarities and figures that are drawn.

use std::path::{Path, PathBuf};

use serde_json::json;
use superweight::model::Subset;
use superweight::plan::{LayerId, SetId, SharingPlan};
use superweight::rng::Draws;
use superweight::recipe::{Recipe, Resolved};
use superweight::report::{
    BinView, CorruptionRow, Corruptions, Evaluation, Interpolation, Latency, LatencyView,
    SubsetView,
};
use superweight::run::{Checkpoint, Disk, Event, Existing, Facts, RunFolder, Tensor};
use superweight::search::{
    CoefficientGradient, Compared, PairStatistic, RefineStatistics, SearchStatistics, Statistics,
    refinement_candidates, decide_clusters, decide_groups,
};
use superweight::model::Outputs;

/// What to make.
pub struct Made {
    pub path: PathBuf,
    pub resolved: Resolved,
    pub statistics: Statistics,
}

/// Writes a run. `warning` is put into the log as it is.
pub fn run(runs: &Path, name: &str, recipe: &str, epochs: u64, warning: Option<&str>) -> Made {
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
    write_log(&folder, &plan, epochs, warning, draws.under(3));
    folder.checkpoints().save(1, &checkpoint(&plan, draws.under(4))).unwrap();
    Made { path: folder.path().to_owned(), resolved, statistics }
}

/// Layers at similar depths are alike, and some pairs of neighbours conflict, as in the paper's figure.
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

fn write_log(
    folder: &RunFolder,
    plan: &SharingPlan,
    epochs: u64,
    warning: Option<&str>,
    draws: Draws,
) {
    let mut log = folder.log().unwrap();
    log.add(Event::Start(Facts::from([("seed", 0)]))).unwrap();
    let members = Outputs::of(plan).count();
    for (phase, count) in [("search", epochs / 8 + 1), ("train", epochs)] {
        for epoch in 0..count {
            let progress = 1.0 - (-4.0 * (epoch + 1) as f64 / count as f64).exp();
            let noise = |who: usize| 0.6 * draws.under(who as u64).normal(epoch);
            let reach = if phase == "search" { 40.0 } else { 74.0 };
            let top1 = |m: usize| reach * progress + 2.0 - 1.3 * m as f64 + noise(m);
            let scores = |top1: f64| json!({ "top1": top1, "top5": 100.0 - (100.0 - top1) * 0.3, "loss": 4.0 - top1 * 0.04 });
            let seen: Vec<_> = (0..members).map(|m| scores(top1(m))).collect();
            let metrics = json!({
                "epochs": count,
                "loss": 4.0 - 0.045 * top1(0),
                "train": {
                    "loss": 4.0 - 0.045 * top1(0),
                    "losses": (0..members).map(|m| 4.0 - 0.045 * top1(m)).collect::<Vec<_>>(),
                    "top1": (0..members).map(|m| top1(m) + 6.0 * progress).collect::<Vec<_>>(),
                    "rate": 0.1 * (1.0 - progress), "seconds": 41.5, "images_per_s": 1084.0,
                },
                "validation": { "images": 5000, "ensemble": scores(top1(0) + 2.4), "members": seen },
            });
            let metrics = metrics.as_object().unwrap().clone();
            log.add(Event::Epoch { phase: phase.to_owned(), epoch, metrics }).unwrap();
            if phase == "train" && epoch + 1 == count / 10 {
                log.add(Event::Refine(Facts::from([("beta", 0.9)]))).unwrap();
            }
        }
        if phase == "search" {
            log.add(Event::Search(Facts::from([("tau", 0.1)]))).unwrap();
        }
    }
    if let Some(warning) = warning {
        log.add(Event::Warning(Facts::from([("warning", warning)]))).unwrap();
    }
    let one = |top1: f64| json!({ "top1": top1, "top5": 93.0, "loss": 0.9 });
    let members: Vec<_> = (0..members).map(|m| one(75.1 - 1.1 * m as f64)).collect();
    let test = json!({ "images": 10000, "ensemble": one(78.42), "members": members });
    log.add(Event::Eval(Facts::from([("part", json!("test")), ("test", test)]))).unwrap();
    log.add(Event::Stop { reason: "finished".to_owned(), metrics: Default::default() }).unwrap();
}

/// What an evaluation could say.
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
        batch: 1,
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
        part: "test".to_owned(),
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
