//! All eight strategies on an example with a known result. Gradients, weights and coefficients are
//! planted and go through the same code as in `swn search` and `swn train`: probe → statistics →
//! file → decision.
//!
//! Two members have four shared layers each; stem and classifier are dense. Layers by id in the
//! plan, with output and input channels:
//!
//! ```text
//! member 0      1: 8←8   2: 16←8   3: 16←16    4: 32←16
//! member 1      7: 8←8   8:  8←8   9: 16←8    10: 16←16
//! depth bins   {1 7}    {2 8}     {3 9}      {4 10}
//! ```

use std::path::PathBuf;

use superweight::engine::CpuDevice;
use superweight::model::bank;
use superweight::model::bank::{coefficients_name, weight_name};
use superweight::model::ensemble::{Ensemble, EnsembleOptions};
use superweight::plan::{LayerId, PlanRequest, SharingPlan, Tiling};
use superweight::recipe::{Recipe, Resolved, Strategy};
use superweight::rng::Draws;
use superweight::run::Disk;
use superweight::search::{
    CoefficientGradientSums, Decision, RefineStatistics, Replay, SearchError, SearchProbe,
    Statistics, Threshold, decide_clusters, decide_groups, replay,
};

const SHARED: [usize; 8] = [1, 2, 3, 4, 7, 8, 9, 10];

const RECIPE: &str = r#"
members = ["cnn-8-8-16-16-32", "cnn-8-8-8-16-16"]
budget = "200%"
seed = 5
[data]
name = "fashion-mnist-10k"
[plan]
tiling = "grid"
block = 8
share_classifier = false
[search]
clusters = 3
"#;

fn resolved(overrides: &[&str]) -> Resolved {
    Recipe::parse("example.toml", RECIPE, overrides).unwrap().resolve().unwrap()
}

fn ensemble(plan: &SharingPlan) -> Ensemble<CpuDevice> {
    let device = CpuDevice::new(1).unwrap();
    let options = EnsembleOptions::train(2);
    let mut ensemble = Ensemble::new(&device, plan, &options).unwrap();
    bank::initialize(plan, ensemble.memory_mut(), 3).unwrap();
    ensemble
}

/// Direction of each of the eight layers' gradients: the number of a random direction, with a sign.
///
/// A direction is drawn for the largest weight and cropped to each layer, so that two layers with
/// the same direction agree exactly on the corner that both have.
type Ways = [i32; 8];

/// Planted gradient of a layer, in OHWI order.
fn gradient(plan: &SharingPlan, id: LayerId, way: i32) -> Vec<f32> {
    let layer = plan.layer(id);
    let draws = Draws::new(&[way.unsigned_abs().into()]);
    let sign = way.signum() as f32;
    let mut values = vec![];
    for o in 0..layer.out {
        for (p, i) in (0..layer.kernel_area()).flat_map(|p| (0..layer.inp).map(move |i| (p, i))) {
            values.push(sign * draws.normal(((o * 64 + i) * 9 + p) as u64) as f32);
        }
    }
    values
}

fn plant_gradients(ensemble: &mut Ensemble<CpuDevice>, ways: Ways) {
    let plan = ensemble.plan().clone();
    for (layer, way) in SHARED.into_iter().zip(ways) {
        let id = LayerId(layer);
        ensemble
            .memory_mut()
            .set_gradient(&weight_name(&plan, id), &gradient(&plan, id, way))
            .unwrap();
    }
}

/// Sets the coefficients of every cell of a layer to ± the unit row with the number of its
/// direction.
fn plant_coefficients(ensemble: &mut Ensemble<CpuDevice>, ways: Ways, size: f32) {
    let plan = ensemble.plan().clone();
    for (s, set) in plan.template_sets.iter().enumerate().filter(|(_, set)| set.templates > 1) {
        let name = coefficients_name(superweight::plan::SetId(s));
        let mut alpha = ensemble.memory().parameter(&name).unwrap();
        let mut row = 0;
        for superweight in plan.superweights.iter().filter(|superweight| superweight.set.0 == s) {
            for group in &superweight.groups {
                let [layer] = group.layers[..] else { panic!("own coefficients") };
                let way = SHARED.iter().position(|&shared| shared == layer.0).map(|at| ways[at]);
                for _ in 0..group.shape[0] {
                    let unit = &mut alpha[row * set.templates..(row + 1) * set.templates];
                    if let Some(way) = way {
                        unit.fill(0.0);
                        unit[way.unsigned_abs() as usize - 1] = size * way.signum() as f32;
                    }
                    row += 1;
                }
            }
        }
        ensemble.memory_mut().set_parameter(&name, &alpha).unwrap();
    }
}

/// Runs the search on planted values: probe, file, decision.
fn searched(
    resolved: &Resolved,
    plant: impl Fn(&mut Ensemble<CpuDevice>),
) -> (Statistics, Decision) {
    let start = resolved.plan_request().unwrap().plan().unwrap();
    let mut ensemble = ensemble(&start);
    let mut probe =
        SearchProbe::new(resolved.search.as_ref().unwrap().similarity, &ensemble).unwrap();
    plant(&mut ensemble);
    probe.observe(&ensemble);
    let search = Some(probe.finish(&mut ensemble).unwrap());
    let statistics = through_file(Statistics { search, refine: None });
    let decision = decide_clusters(resolved, statistics.search.as_ref().unwrap()).unwrap();
    decision.plan.validate().unwrap();
    (statistics, decision)
}

/// Runs refinement on planted gradients: sums, file, decision.
fn refined(resolved: &Resolved, plan: &SharingPlan, ways: Ways) -> (RefineStatistics, Decision) {
    let mut ensemble = ensemble(plan);
    let mut sums = CoefficientGradientSums::new(plan, ensemble.memory()).unwrap();
    plant_gradients(&mut ensemble, ways);
    sums.observe(ensemble.memory_mut()).unwrap();
    let refine = RefineStatistics { plan: plan.clone(), gradients: sums.read(plan) };
    let statistics =
        through_file(Statistics { search: None, refine: Some(refine) }).refine.unwrap();
    let decision = decide_groups(resolved, &statistics).unwrap();
    decision.plan.validate().unwrap();
    (statistics, decision)
}

/// Writes statistics to a file and reads them back.
fn through_file(statistics: Statistics) -> Statistics {
    static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("superweight-strategies-{}-{count}.safetensors", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    statistics.save(&Disk::default(), &path).unwrap();
    let read = Statistics::load(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(read, statistics);
    read
}

/// Text of a partition, such as `1 7 | 2 | 8`.
fn text(sets: &mut [Vec<LayerId>]) -> String {
    sets.sort();
    let set = |set: &Vec<LayerId>| set.iter().map(LayerId::to_string).collect::<Vec<_>>().join(" ");
    sets.iter().map(set).collect::<Vec<_>>().join(" | ")
}

fn clusters(plan: &SharingPlan) -> String {
    text(&mut plan.clusters.iter().map(|cluster| cluster.layers.clone()).collect::<Vec<_>>())
}

/// Text of all coefficient groups with more than one layer.
fn sharing(plan: &SharingPlan) -> String {
    let groups = plan.superweights.iter().flat_map(|superweight| &superweight.groups);
    let mut shared: Vec<_> =
        groups.map(|g| g.layers.clone()).filter(|layers| layers.len() > 1).collect();
    shared.sort();
    shared.dedup();
    text(&mut shared)
}

/// Layers of the depth bins {1 7} and {3 9} have the same directions, {2 8} opposite ones, {4 10}
/// independent ones.
const BINS: Ways = [1, 1, 2, 1, 1, -1, 2, 3];
/// Clusters that the search finds with [`BINS`], starting from depth bins.
const BINS_FOUND: &str = "1 7 | 2 | 3 9 | 4 | 8 | 10";
/// Two directions and the opposite of one, across the bins.
const ACROSS: Ways = [1, 1, -1, 2, 1, -1, 2, 1];
/// Clusters that the search finds with [`ACROSS`], starting from one cluster.
const ACROSS_FOUND: &str = "1 2 7 10 | 3 8 | 4 9";

/// Clusters and coefficient groups that a strategy gives for the planted values.
fn pinned(strategy: Strategy) -> (String, String) {
    let word = format!("strategy={}", strategy.word());
    let resolved = resolved(&[&word]);
    let plan = match strategy {
        Strategy::Swn | Strategy::NoRefine | Strategy::AllSoft => {
            searched(&resolved, |ensemble| plant_gradients(ensemble, BINS)).1.plan
        }
        Strategy::WeightSimilarity => {
            searched(&resolved, |ensemble| {
                plant_coefficients(ensemble, [1, 1, 2, 1, 1, -1, 2, 2], 1.0)
            })
            .1
            .plan
        }
        Strategy::CoefficientClustering => {
            let ways = [1, 1, 3, 2, 1, 3, 2, 1];
            searched(&resolved, |ensemble| plant_coefficients(ensemble, ways, 5.0)).1.plan
        }
        Strategy::NoSearch | Strategy::DepthBinned | Strategy::Random => {
            resolved.plan_request().unwrap().plan().unwrap()
        }
    };
    assert_eq!(plan.tiling, Tiling::Grid { block: 8 });
    // Gradients of α are opposite for layers 3 and 9, equal for 1 and 7.
    let plan = match resolved.refine {
        Some(_) => refined(&resolved, &plan, [1, 1, 2, 1, 1, 1, -2, 1]).1.plan,
        None => plan,
    };
    (clusters(&plan), sharing(&plan))
}

/// Three clusters are requested, with a budget that is large enough for the starting plan, but not
/// for three clusters.
#[test]
fn k_means_uses_fewer_clusters_if_the_budget_is_too_small() {
    let strategy = "strategy=coefficient-clustering";
    let request = resolved(&[strategy]).plan_request().unwrap();
    let four = PlanRequest { budget: None, ..request }.plan().unwrap().bill.total();
    let resolved = resolved(&[strategy, &format!("budget={four}")]);
    let ways = [1, 1, 3, 2, 1, 3, 2, 1];
    let decision = searched(&resolved, |ensemble| plant_coefficients(ensemble, ways, 5.0)).1;
    let Threshold { name, requested, used, relaxed } = decision.threshold;
    assert_eq!((name, requested), ("k", 3.0));
    let reason = relaxed.unwrap();
    assert!(used < 3.0 && reason.contains("clusters need"), "{used}: {reason}");
    assert!(decision.plan.bill.total() <= four);
}

#[test]
fn each_strategy_gives_its_clusters_and_groups() {
    let expected = |strategy| match strategy {
        // Searched within the bins, hard-shared, then refined: 3 and 9 are separated.
        Strategy::Swn => (BINS_FOUND, "1 7"),
        Strategy::NoRefine => (BINS_FOUND, "1 7 | 3 9"),
        Strategy::AllSoft => (BINS_FOUND, ""),
        // By weights: 1 7 and 3 9 have equal coefficients, 2 8 opposite ones, 4 10 other templates.
        Strategy::WeightSimilarity => (BINS_FOUND, ""),
        Strategy::NoSearch => ("1 2 3 4 7 8 9 10", ""),
        Strategy::DepthBinned => ("1 7 | 2 8 | 3 9 | 4 10", ""),
        // Random, with seed 5.
        Strategy::Random => ("1 3 | 2 | 4 7 9 | 8 10", ""),
        // k = 3, not limited to depth bins.
        Strategy::CoefficientClustering => ("1 2 7 10 | 3 8 | 4 9", ""),
    };
    for strategy in Strategy::ALL {
        let (clusters, groups) = pinned(strategy);
        assert_eq!((clusters.as_str(), groups.as_str()), expected(strategy), "{strategy:?}");
    }
}

/// Layers with opposite gradients are separated, layers with equal ones stay together. The result
/// depends on the gradients: with rotated ones it differs.
#[test]
fn planted_gradients_determine_the_clusters() {
    for tiling in ["plan.tiling=grid", "plan.tiling=nested"] {
        let resolved = resolved(&["plan.clusters=single", tiling]);
        let found_with = |ways: Ways| {
            clusters(&searched(&resolved, |ensemble| plant_gradients(ensemble, ways)).1.plan)
        };
        assert_eq!(found_with(ACROSS), ACROSS_FOUND, "{tiling}");
        assert_eq!(found_with([1; 8]), "1 2 3 4 7 8 9 10");
        for shift in 1..8 {
            let mut rotated = ACROSS;
            rotated.rotate_left(shift);
            assert_ne!(found_with(rotated), ACROSS_FOUND, "{tiling}, rotated by {shift}");
        }
    }
}

/// The statistics of a run give its plan again, and with another τ the plan of a search with that
/// τ.
#[test]
fn replay_repeats_the_decision_and_tries_other_thresholds() {
    let run = resolved(&["plan.clusters=single"]);
    let (mut statistics, trained) = searched(&run, |ensemble| plant_gradients(ensemble, ACROSS));
    let (refine, groups) = refined(&run, &trained.plan, [1, 1, 2, 1, 1, 1, -2, 1]);
    statistics.refine = Some(refine);

    let again = replay(&run, &statistics, Replay::default()).unwrap();
    assert_eq!(again.decision(), &trained);
    let with = |tau, beta| replay(&run, &statistics, Replay { tau, beta });
    let beta = run.refine.as_ref().unwrap().beta;
    assert_eq!(with(Some(0.1), Some(beta)).unwrap().groups, Some(groups));

    // τ = −1: only exactly opposite pairs do not join; layers 4 and 9 connect all others.
    let coarse = with(Some(-1.0), None).unwrap();
    assert_eq!(clusters(&coarse.decision().plan), "1 2 3 4 7 8 9 10");
    let mut fresh = run.clone();
    fresh.search.as_mut().unwrap().settings.tau = -1.0;
    let (_, fresh) = searched(&fresh, |ensemble| plant_gradients(ensemble, ACROSS));
    assert_eq!(coarse.decision(), &fresh);
    // Other clusters have other SuperWeights, for which there is no dL/dα.
    assert!(matches!(with(Some(-1.0), Some(beta)), Err(SearchError::OtherClusters)));
    // A larger β splits groups that the run kept.
    let fine = with(None, Some(1.0)).unwrap();
    assert_eq!(sharing(&fine.decision().plan), "");
}

#[test]
fn errors_name_what_is_wrong_with_statistics() {
    let run = resolved(&[]);
    let (statistics, _) = searched(&run, |ensemble| plant_gradients(ensemble, BINS));
    let error = replay(&run, &Statistics::default(), Replay::default()).unwrap_err().to_string();
    assert_eq!(
        error,
        "there are no statistics of a search: the run has not reached it, or its strategy has none"
    );
    let other = resolved(&["strategy=weight-similarity"]);
    let error = replay(&other, &statistics, Replay::default()).unwrap_err().to_string();
    assert_eq!(
        error,
        "statistics: they compare gradients, which strategy weight-similarity does not"
    );
    let tensors = statistics.to_tensors();
    let mut empty = superweight::run::Tensors::default();
    assert!(Statistics::from_tensors(&empty).unwrap_err().to_string().contains("no statistics"));
    empty.metadata = tensors.metadata.clone();
    let error = Statistics::from_tensors(&empty).unwrap_err().to_string();
    assert_eq!(error, "there is no tensor 'search.pairs'");
    empty.metadata.insert("superweight.statistics".into(), "2".into());
    let error = Statistics::from_tensors(&empty).unwrap_err().to_string();
    assert_eq!(
        error,
        "statistics: version 2, this program reads version 1: use the program that wrote it"
    );
}
