//! Properties of random plans, checked from the written JSON by code that shares nothing with the planner: it knows
//! the file format and arithmetic, not the crate's types.

mod common;

use std::collections::BTreeSet;

use common::members;
use proptest::prelude::*;
use serde_json::Value;
use superweight_plan::{
    Assignment, Clustering, CoefficientPairs, Coefficients, LayerId, Pair, PlanError, PlanRequest, Share,
    SharingPlan, SuperWeightId, TilingChoice, refine,
};

fn architecture() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..3usize, 1..4usize).prop_map(|(n, k)| format!("wrn-{}-{k}", 10 + 6 * n)),
        prop::collection::vec(1..24usize, 1..6).prop_map(|w| {
            format!("cnn-{}", w.iter().map(usize::to_string).collect::<Vec<_>>().join("-"))
        }),
        Just("mobilenet-v2-0.1".to_owned()), // its 1×1 layers cross: [8, 48] and [48, 8]
    ]
}

fn clustering() -> impl Strategy<Value = Clustering> {
    prop_oneof![
        Just(Clustering::Single),
        (1..5usize).prop_map(Clustering::Depth),
        (1..6usize, any::<u64>()).prop_map(|(clusters, seed)| Clustering::Random { clusters, seed }),
        Just(Clustering::PerLayer),
        Just(Clustering::PerPosition),
        Just(Clustering::Dense),
    ]
}

prop_compose! {
    fn any_request()(
        names in prop::collection::vec(architecture(), 1..4),
        clusters in clustering(),
        tiling in prop_oneof![Just(TilingChoice::Auto), Just(TilingChoice::Nested), Just(TilingChoice::Grid)],
        block in prop::option::of(1..40usize),
        own in any::<bool>(),
        reserve in prop_oneof![Just(0.0), Just(1.0), 0.0..1.0f64],
        share in (any::<bool>(), any::<bool>()),
    ) -> PlanRequest {
        let coefficients = if own { Coefficients::Own } else { Coefficients::Shared };
        let share = Share { stem: share.0, classifier: share.1 };
        let request = PlanRequest::new(members(&names.join(","), 10), None);
        PlanRequest { clusters, tiling, block, coefficients, reserve, share, ..request }
    }
}

/// A request with a budget from its minimum to a little over its dense total.
fn feasible_request() -> impl Strategy<Value = PlanRequest> {
    (any_request(), 0.0..1.0f64).prop_map(|(mut request, t)| {
        let survey = request.survey().unwrap();
        let top = survey.dense_total.max(survey.minimum) as f64 * 1.1;
        request.budget = Some((survey.minimum as f64 * (1.0 - t) + top * t) as u64);
        request.budget = request.budget.max(Some(survey.minimum));
        request
    })
}

// ---- The independent reader -------------------------------------------------------------------------------------

fn int(value: &Value) -> usize {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count")) as usize
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{value} is not a list"))
}

fn rect(at: &Value) -> [usize; 4] {
    [int(&at["rows"][0]), int(&at["rows"][1]), int(&at["cols"][0]), int(&at["cols"][1])]
}

/// Every (row, column) of every composed layer lies in exactly one tile; every tile stays inside.
fn check_coverage(plan: &Value) {
    for layer in list(&plan["layers"]).iter().filter(|l| l["tiles"].is_array()) {
        let (out, inp) = (int(&layer["layer"]["out"]), int(&layer["layer"]["in"]));
        let mut times = vec![0u8; out * inp];
        for tile in list(&layer["tiles"]) {
            let [top, bottom, left, right] = rect(&tile["at"]);
            for row in top..bottom {
                for col in left..right {
                    assert!(row < out && col < inp, "tile leaves the layer");
                    times[row * inp + col] += 1;
                }
            }
        }
        assert!(times.iter().all(|&n| n == 1), "{} is not covered exactly once", layer["layer"]["name"]);
    }
}

/// What one number of a hard-shared layer is made of: which set, which α row (SuperWeight and cell), which place in the
/// block.
type Source = (usize, (usize, usize, usize), usize, usize);

/// The source of every number of a layer's first kernel position, row by row.
fn sources(plan: &Value, layer: usize) -> Vec<Source> {
    let layer = &plan["layers"][layer];
    let (out, inp) = (int(&layer["layer"]["out"]), int(&layer["layer"]["in"]));
    let mut sources = vec![(0, (0, 0, 0), 0, 0); out * inp];
    for tile in list(&layer["tiles"]) {
        let id = int(&tile["superweight"]);
        let superweight = &plan["superweights"][id];
        let set = int(&superweight["set"]);
        let block = &plan["template_sets"][set]["block"];
        let (height, width) = (int(&block[0]), int(&block[1]));
        let [origin_row, _, origin_col, _] = rect(&superweight["at"]);
        let [top, bottom, left, right] = rect(&tile["at"]);
        for row in top..bottom {
            for col in left..right {
                let (r, c) = (row - origin_row, col - origin_col);
                let alpha = (id, r / height, c / width);
                sources[row * inp + col] = (set, alpha, r % height, c % width);
            }
        }
    }
    sources
}

/// Hard-shared, layers of a cluster agree wherever both have a number: each is a corner of one matrix.
fn check_corners(plan: &Value) {
    for cluster in list(&plan["clusters"]) {
        let layers: Vec<_> = list(&cluster["layers"]).iter().map(int).collect();
        let inputs = |layer: usize| int(&plan["layers"][layer]["layer"]["in"]);
        let width = layers.iter().map(|&layer| inputs(layer)).max().unwrap();
        let mut matrix: Vec<Option<Source>> = vec![];
        for &layer in &layers {
            for (i, source) in sources(plan, layer).into_iter().enumerate() {
                let at = i / inputs(layer) * width + i % inputs(layer);
                if at >= matrix.len() {
                    matrix.resize(at + 1, None);
                }
                assert_eq!(
                    *matrix[at].get_or_insert(source),
                    source,
                    "layer {layer} differs from its cluster's matrix"
                );
            }
        }
    }
}

/// Adds up every trainable number the file names, and holds it against the bill and the budget.
fn check_bill(plan: &Value) {
    let product = |dims: &Value| list(dims).iter().map(int).product::<usize>();
    let templates: usize =
        list(&plan["template_sets"]).iter().map(|s| int(&s["templates"]) * product(&s["block"])).sum();
    let groups = || list(&plan["superweights"]).iter().flat_map(|s| list(&s["groups"]));
    let coefficients: usize = groups().map(|g| product(&g["shape"])).sum();
    let (mut dense, mut classifier, mut norm) = (0, 0, 0);
    for layer in list(&plan["layers"]).iter().filter(|l| l["tiles"].is_null()) {
        let l = &layer["layer"];
        let numbers = int(&l["out"]) * int(&l["in"]) * product(&l["kernel"]);
        *(if l["kind"] == "linear" { &mut classifier } else { &mut dense }) += numbers;
    }
    for vector in list(&plan["vectors"]) {
        *(if vector["kind"] == "bias" { &mut classifier } else { &mut norm }) += int(&vector["len"]);
    }
    let bill = &plan["bill"];
    for (part, counted) in [
        ("templates", templates),
        ("coefficients", coefficients),
        ("batch_norm", norm),
        ("classifier", classifier),
        ("dense", dense),
    ] {
        assert_eq!(int(&bill[part]), counted, "{part}");
    }
    let trained = templates + coefficients + norm + classifier + dense;
    if let Some(budget) = plan["budget"].as_u64() {
        assert!(trained + int(&bill["reserved"]) <= budget as usize, "over budget");
    }
}

/// Every composed layer has one α per SuperWeight with more than one template, large enough for its cells.
fn check_groups(plan: &Value) {
    let mut users = vec![BTreeSet::new(); list(&plan["superweights"]).len()];
    for (i, layer) in list(&plan["layers"]).iter().enumerate() {
        for tile in layer["tiles"].as_array().into_iter().flatten() {
            assert!(users[int(&tile["superweight"])].insert(i), "a layer uses a SuperWeight twice");
        }
    }
    for (superweight, users) in list(&plan["superweights"]).iter().zip(users) {
        let set = &plan["template_sets"][int(&superweight["set"])];
        let mut seen = BTreeSet::new();
        for group in list(&superweight["groups"]) {
            assert_eq!(int(&group["shape"][1]), int(&set["templates"]));
            for layer in list(&group["layers"]) {
                assert!(seen.insert(int(layer)), "a layer has two α");
            }
        }
        assert_eq!(seen, if int(&set["templates"]) > 1 { users } else { BTreeSet::new() });
    }
}

fn check(json: &str) {
    let plan: Value = serde_json::from_str(json).unwrap();
    check_coverage(&plan);
    check_corners(&plan);
    check_groups(&plan);
    check_bill(&plan);
}

fn random_similarities(plan: &SharingPlan, seed: u64) -> Vec<CoefficientPairs> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % 2001) as f64 / 1000.0 - 1.0
    };
    let mut all = vec![];
    for (i, superweight) in plan.superweights.iter().enumerate().filter(|(_, s)| !s.groups.is_empty()) {
        let users: Vec<LayerId> = superweight.groups.iter().flat_map(|g| g.layers.clone()).collect();
        let mut pairs = vec![];
        for (n, &b) in users.iter().enumerate() {
            pairs.extend(users[..n].iter().map(|&a| Pair::new(a, b, next())));
        }
        all.push(CoefficientPairs { superweight: SuperWeightId(i), pairs });
    }
    all
}

#[test]
fn large_networks_hold_their_promises() {
    for (names, classes, budget) in [("wrn-50-2", 1000, 6_888_324), ("mobilenet-v2,wrn-28-5", 100, 9_000_000)]
    {
        for clusters in ["single", "depth:4"] {
            check(&common::request(names, classes, budget, clusters).plan().unwrap().to_json());
        }
    }
}

#[test]
fn the_independent_reader_sees_damage() {
    let plan = common::request("wrn-16-4,wrn-16-2", 10, 300_000, "single").plan().unwrap().to_json();
    check(&plan);
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let damages: [fn(&mut Value); 5] = [
        |p| p["layers"][2]["tiles"][1]["at"]["cols"][0] = 1.into(),
        |p| drop(p["layers"][2]["tiles"].as_array_mut().unwrap().pop()),
        |p| p["superweights"][1]["at"]["rows"][0] = 1.into(),
        |p| p["template_sets"][0]["templates"] = 3.into(),
        |p| drop(p["superweights"][0]["groups"][0]["layers"].as_array_mut().unwrap().pop()),
    ];
    for (i, damage) in damages.iter().enumerate() {
        let mut plan = plan.clone();
        damage(&mut plan);
        let text = plan.to_string();
        assert!(std::panic::catch_unwind(|| check(&text)).is_err(), "damage {i} goes unseen");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn feasible_plans_hold_their_promises(request in feasible_request()) {
        let plan = request.plan().unwrap();
        let json = plan.to_json();
        check(&json);
        prop_assert_eq!(&SharingPlan::from_json(&json).unwrap(), &plan, "JSON round trip");
        prop_assert_eq!(request.plan().unwrap().to_json(), json, "deterministic");
    }

    #[test]
    fn refinement_keeps_budget_and_promises(request in feasible_request(), beta in -1.1..1.1f64, seed: u64) {
        let plan = request.plan().unwrap();
        match refine(&plan, &random_similarities(&plan, seed), beta, Assignment::Merge) {
            Ok(refined) => {
                check(&refined.plan.to_json());
                prop_assert_eq!(&SharingPlan::from_json(&refined.plan.to_json()).unwrap(), &refined.plan);
                prop_assert!(refined.plan.bill.total() <= request.budget.unwrap());
                prop_assert!(refined.beta <= beta);
            }
            // Similarity −1 never merges, and a plan whose layers own their α may have no room for it.
            Err(error) => prop_assert!(matches!(error, PlanError::NoFeasibleThreshold { .. }), "{}", error),
        }
    }

    #[test]
    fn a_budget_below_the_minimum_is_refused_and_the_minimum_is_enough(mut request in any_request()) {
        request.budget = Some(1);
        let minimum = request.survey().unwrap().minimum;
        request.budget = Some(minimum - 1);
        let refused = matches!(request.plan(), Err(PlanError::BudgetTooSmall { needed, .. }) if needed == minimum);
        prop_assert!(refused);
        request.budget = Some(minimum);
        prop_assert!(request.plan().is_ok());
    }
}
