//! Properties of random plans, checked by an independent reader of the plan file.
//!
//! The reader knows the JSON format and arithmetic; it uses none of the crate's types.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::members;
use proptest::prelude::*;
use serde_json::Value;
use superweight_plan::{
    Assignment, Clustering, CoefficientPairs, Coefficients, LayerId, Pair, PlanError, PlanRequest,
    Scale, SharedRoles, SharingPlan, SuperWeightId, TilingChoice, refine,
};

fn architecture() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..3usize, 1..4usize).prop_map(|(n, k)| format!("wrn-{}-{k}", 10 + 6 * n)),
        prop::collection::vec(1..24usize, 1..6).prop_map(|w| {
            format!("cnn-{}", w.iter().map(usize::to_string).collect::<Vec<_>>().join("-"))
        }),
        Just("mobilenet-v2-0.1".to_owned()), // has 1×1 layers that cross: [8, 48] and [48, 8]
    ]
}

fn clustering() -> impl Strategy<Value = Clustering> {
    prop_oneof![
        Just(Clustering::Single),
        (1..5usize).prop_map(Clustering::Depth),
        (1..6usize, any::<u64>())
            .prop_map(|(clusters, seed)| Clustering::Random { clusters, seed }),
        Just(Clustering::PerLayer),
        Just(Clustering::PerPosition),
        Just(Clustering::Dense),
    ]
}

prop_compose! {
    fn any_request()(
        names in prop::collection::vec(architecture(), 1..4),
        clusters in clustering(),
        tiling in prop::sample::select(vec![
            TilingChoice::Auto, TilingChoice::Nested, TilingChoice::Grid, TilingChoice::Kronecker,
            TilingChoice::Stretched, TilingChoice::RankOne,
        ]),
        block in prop::option::of(1..40usize),
        own in 0..3usize,
        explicit in any::<bool>(),
        reserve in prop_oneof![Just(0.0), Just(1.0), 0.0..1.0f64],
        shared_roles in (any::<bool>(), any::<Option<bool>>()),
        scale in prop::option::of(prop::sample::select(vec![
            Scale::Even, Scale::Balanced, Scale::He, Scale::Released, Scale::Corner,
        ])),
    ) -> PlanRequest {
        let shared_roles = SharedRoles { stem: shared_roles.0, classifier: shared_roles.1 };
        let request = PlanRequest::new(members(&names.join(","), 10), None);
        let mut request =
            PlanRequest { clusters, tiling, block, reserve, shared_roles, scale, ..request };
        let mut partition = request.survey().unwrap().partition;
        request.coefficients = match own {
            0 => Coefficients::Shared,
            1 => Coefficients::PerLayer,
            // Group every second layer of each cluster.
            _ => Coefficients::Explicit(
                partition.iter().map(|c| c.iter().copied().step_by(2).collect()).collect(),
            ),
        };
        if explicit {
            partition.truncate(partition.len().div_ceil(2));
            request.clusters = Clustering::Explicit(partition);
        }
        request
    }
}

/// A request with a budget between its smallest one and 1.1 times the dense total.
fn feasible_request() -> impl Strategy<Value = PlanRequest> {
    (any_request(), 0.0..1.0f64).prop_map(|(mut request, t)| {
        let survey = request.survey().unwrap();
        let top = survey.dense_total.max(survey.min_budget) as f64 * 1.1;
        request.budget = Some((survey.min_budget as f64 * (1.0 - t) + top * t) as u64);
        request.budget = request.budget.max(Some(survey.min_budget));
        request
    })
}

// ---- The independent reader ----

fn int(value: &Value) -> usize {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count")) as usize
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{value} is not a list"))
}

fn rect(at: &Value) -> [usize; 4] {
    [int(&at["rows"][0]), int(&at["rows"][1]), int(&at["cols"][0]), int(&at["cols"][1])]
}

/// Tiles cover every position of every composed layer exactly once and stay inside the layer.
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
        assert!(
            times.iter().all(|&n| n == 1),
            "{} is not covered exactly once",
            layer["layer"]["name"]
        );
    }
}

/// The origin of one value of a hard-shared layer: template set, row of α (SuperWeight, row and
/// column of the cell), row and column in the block.
type Source = (usize, (usize, usize, usize), usize, usize);

/// The origin of every value at a layer's first kernel position, in row-major order.
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

/// With hard sharing, layers of a cluster agree at every common position: each is a corner of one
/// matrix.
fn check_corners(plan: &Value) {
    for cluster in list(&plan["clusters"]).iter().filter(|cluster| cluster["bank"].is_null()) {
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

/// Counts the parameters in the file and compares them with the bill and the budget.
fn check_bill(plan: &Value) {
    let product = |dims: &Value| list(dims).iter().map(int).product::<usize>();
    let own = list(&plan["template_sets"]).iter().filter(|s| s["view"].is_null());
    let mut templates: usize = own.map(|s| int(&s["templates"]) * product(&s["block"])).sum();
    templates +=
        list(&plan["clusters"]).iter().filter_map(|c| c["bank"].as_u64()).sum::<u64>() as usize;
    for (i, superweight) in
        list(&plan["superweights"]).iter().enumerate().filter(|_| has_patterns(plan))
    {
        let k = int(&plan["template_sets"][int(&superweight["set"])]["templates"]);
        templates += if k > 1 { pattern_cells(plan, i) * k } else { 0 };
    }
    let groups = || list(&plan["superweights"]).iter().flat_map(|s| list(&s["groups"]));
    let mut coefficients: usize = groups().map(|g| product(&g["shape"])).sum();
    if plan["tiling"] == "rank-one" {
        let factors = |set: &Value| int(&set["block"][0]) + int(&set["block"][1]);
        coefficients += list(&plan["template_sets"]).iter().map(factors).sum::<usize>();
    }
    let (mut dense, mut classifier, mut norm) = (0, 0, 0);
    for layer in list(&plan["layers"]).iter().filter(|l| l["tiles"].is_null()) {
        let l = &layer["layer"];
        let numbers = int(&l["out"]) * int(&l["in"]) * product(&l["kernel"]);
        *(if l["kind"] == "linear" { &mut classifier } else { &mut dense }) += numbers;
    }
    for vector in list(&plan["vectors"]) {
        *(if vector["kind"] == "bias" { &mut classifier } else { &mut norm }) +=
            int(&vector["len"]);
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

/// Whether the plan has Kronecker tiling.
fn has_patterns(plan: &Value) -> bool {
    plan["tiling"].get("kronecker").is_some()
}

/// Number of cells of a SuperWeight that any layer uses.
fn pattern_cells(plan: &Value, superweight: usize) -> usize {
    let cells: BTreeSet<_> = cells_by_layer(plan, superweight).into_values().flatten().collect();
    cells.len()
}

/// Every layer has one α for each of its SuperWeights with several templates.
///
/// α has a row for every cell that any layer of its group uses, or one row with Kronecker tiling.
/// The reserve is what every layer with its own α would need beyond the present coefficients.
fn check_groups(plan: &Value) {
    let (mut live, mut own) = (0, 0);
    for (i, superweight) in list(&plan["superweights"]).iter().enumerate() {
        let set = &plan["template_sets"][int(&superweight["set"])];
        let k = int(&set["templates"]);
        let users = cells_by_layer(plan, i);
        let mut seen = BTreeSet::new();
        for group in list(&superweight["groups"]) {
            let layers: Vec<_> = list(&group["layers"]).iter().map(int).collect();
            let cells: BTreeSet<_> = layers.iter().flat_map(|layer| &users[layer]).collect();
            let rows = if has_patterns(plan) { 1 } else { cells.len() };
            assert_eq!([int(&group["shape"][0]), int(&group["shape"][1])], [rows, k], "shape of α");
            live += rows * k;
            for layer in layers {
                assert!(seen.insert(layer), "a layer has two α");
            }
        }
        let all: BTreeSet<usize> = users.keys().copied().collect();
        assert_eq!(seen, if k > 1 { all } else { BTreeSet::new() });
        let rows = |cells: &BTreeSet<_>| if has_patterns(plan) { 1 } else { cells.len() };
        own += if k > 1 { users.values().map(rows).sum::<usize>() * k } else { 0 };
    }
    let reserve = plan["reserve"].as_f64().unwrap();
    let charged = live.max((reserve * own as f64).ceil() as usize);
    assert_eq!(int(&plan["bill"]["reserved"]), charged - live, "reserved");
}

/// The cells of a SuperWeight's grid that each layer uses, collected position by position.
fn cells_by_layer(plan: &Value, superweight: usize) -> BTreeMap<usize, BTreeSet<(usize, usize)>> {
    let at = rect(&plan["superweights"][superweight]["at"]);
    let block = &plan["template_sets"][int(&plan["superweights"][superweight]["set"])]["block"];
    let (height, width) = (int(&block[0]), int(&block[1]));
    let mut users = BTreeMap::new();
    for (i, layer) in list(&plan["layers"]).iter().enumerate() {
        for tile in layer["tiles"].as_array().into_iter().flatten() {
            if int(&tile["superweight"]) == superweight {
                let [top, bottom, left, right] = rect(&tile["at"]);
                let rows: BTreeSet<_> = (top..bottom).map(|r| (r - at[0]) / height).collect();
                let cols: BTreeSet<_> = (left..right).map(|c| (c - at[2]) / width).collect();
                let cells = rows.iter().flat_map(|&r| cols.iter().map(move |&c| (r, c))).collect();
                assert!(users.insert(i, cells).is_none(), "a layer uses a SuperWeight twice");
            }
        }
    }
    users
}

/// Initial values and factors follow the table in the documentation of [`Scale`], with He =
/// √(2/fan-in) of the largest fan-in of the set.
fn check_scale(plan: &Value, scale: Scale) {
    let he = |layer: &Value| {
        let fan_in = int(&layer["in"]) * int(&layer["kernel"][0]) * int(&layer["kernel"][1]);
        (2.0 / fan_in as f64).sqrt()
    };
    let close = |a: &Value, b: f64| (a.as_f64().unwrap() / b - 1.0).abs() < 1e-9;
    for (s, set) in list(&plan["template_sets"]).iter().enumerate() {
        let superweights = list(&plan["superweights"]).iter().enumerate();
        let here: Vec<usize> =
            superweights.filter(|(_, w)| int(&w["set"]) == s).map(|(i, _)| i).collect();
        let users: Vec<_> = here.iter().map(|&i| cells_by_layer(plan, i)).collect();
        let uses: usize = users.iter().flat_map(|u| u.values()).map(BTreeSet::len).sum();
        let layers: BTreeSet<usize> = users.iter().flat_map(|u| u.keys().copied()).collect();
        let he_c =
            layers.iter().map(|&l| he(&plan["layers"][l]["layer"])).fold(f64::INFINITY, f64::min);
        let (k, uses) = (int(&set["templates"]) as f64, uses as f64);
        let (bank, narrowing) = (bank(plan, set), narrowing(set));
        let he_own = he_c;
        let he_c = bank.as_ref().map_or(he_c, |(layers, _)| {
            layers.iter().map(|&l| he(&plan["layers"][l]["layer"])).fold(f64::INFINITY, f64::min)
        });
        let made = bank.map_or(uses / k, |(_, made)| made);
        let numbers = list(&set["block"]).iter().map(int).product::<usize>() as f64;
        let fourth_root = |x: f64| x.sqrt().sqrt();
        let (std, row_norm, gain) = match scale {
            Scale::Even if k == 1.0 => (he_c * fourth_root(made), 1.0, 1.0),
            Scale::Even if has_patterns(plan) => {
                let cells = here.iter().map(|&i| pattern_cells(plan, i)).sum::<usize>() as f64;
                let alphas = users.iter().map(BTreeMap::len).sum::<usize>() as f64;
                let row_norm = he_c * fourth_root(k * numbers * uses / cells);
                (
                    he_c * fourth_root(uses / k),
                    row_norm,
                    he_c * fourth_root(uses * numbers / alphas / k),
                )
            }
            Scale::Even => (he_c * fourth_root(made), he_own * fourth_root(k * numbers), 1.0),
            Scale::Balanced => (he_c * made.sqrt(), 1.0, 1.0),
            Scale::He => (1.0, 1.0, 1.0),
            Scale::Released => (2f64.sqrt() / 3.0, 1.0, 1.0),
            Scale::Corner => (he_c, 1.0, 1.0),
            other => panic!("{other} has no formula here"),
        };
        assert!(close(&set["std"], std), "std of set {s}");
        assert!(close(&set["row_norm"], row_norm), "row_norm of set {s}");
        assert!(set.get("gain").map_or(gain == 1.0, |found| close(found, gain)), "gain of set {s}");
        for &l in &layers {
            let layer = &plan["layers"][l];
            for tile in
                list(&layer["tiles"]).iter().filter(|t| here.contains(&int(&t["superweight"])))
            {
                let is_equal = matches!(scale, Scale::Released | Scale::Corner);
                let starts = std * row_norm * gain * narrowing;
                let he = if is_equal { starts } else { he(&layer["layer"]) };
                assert!(close(&tile["factor"], he / starts), "factor of layer {l}");
            }
        }
    }
}

/// The layers that read the same bank as a set, and the number of weights per parameter of the
/// bank.
fn bank(plan: &Value, set: &Value) -> Option<(Vec<usize>, f64)> {
    let cluster = &plan["clusters"][int(&set["cluster"])];
    let numbers = cluster["bank"].as_u64()? as f64;
    let layers: Vec<_> = list(&cluster["layers"]).iter().map(int).collect();
    let weights = |l: &usize| {
        let layer = &plan["layers"][*l]["layer"];
        int(&layer["out"]) * int(&layer["in"]) * int(&layer["kernel"][0]) * int(&layer["kernel"][1])
    };
    let made = layers.iter().map(weights).sum::<usize>() as f64 / numbers;
    Some((layers, made))
}

/// Standard deviation of interpolated independent values: the root mean square norm of the rows of
/// both interpolations.
fn narrowing(set: &Value) -> f64 {
    let Some(from) = set["view"]["from"].as_array() else { return 1.0 };
    let line = |from: usize, to: usize| {
        let mut squares = 0.0;
        for i in 0..to {
            let mut weights = vec![0.0; from];
            let place = ((i as f64 + 0.5) * from as f64 / to as f64 - 0.5).max(0.0);
            let lower = place as usize;
            weights[lower] += 1.0 - (place - lower as f64);
            weights[(lower + 1).min(from - 1)] += place - lower as f64;
            squares += weights.iter().map(|w| w * w).sum::<f64>();
        }
        squares / to as f64
    };
    let (block, area) = (&set["block"], int(&set["block"][2]) * int(&set["block"][3]));
    let (rows, cols) =
        (line(int(&from[0]), int(&block[0])), line(int(&from[1]) * area, int(&block[1]) * area));
    (rows * cols).sqrt()
}

/// Templates are inside their bank and disjoint; only layers larger than their bank are stretched.
fn check_views(plan: &Value) {
    for set in list(&plan["template_sets"]) {
        let numbers = &plan["clusters"][int(&set["cluster"])]["bank"];
        assert_eq!(numbers.is_null(), set["view"].is_null());
        let Some(numbers) = numbers.as_u64() else { continue };
        let block: Vec<_> = list(&set["block"]).iter().map(int).collect();
        let whole = block.iter().product::<usize>() as u64;
        let from = set["view"]["from"].as_array().map(|from| [int(&from[0]), int(&from[1])]);
        if plan["tiling"] == "rank-one" {
            assert_eq!((whole, from, list(&set["view"]["at"])), (numbers, None, &vec![0.into()]));
            continue;
        }
        assert_eq!(from.is_some(), whole > numbers);
        let [rows, cols] = from.unwrap_or([block[0], block[1]]);
        let len = (rows * cols * block[2] * block[3]) as u64;
        let at: Vec<_> = list(&set["view"]["at"]).iter().map(|at| at.as_u64().unwrap()).collect();
        assert_eq!(at.len(), (numbers / whole).clamp(1, 8) as usize);
        assert!(
            at.iter().all(|at| at + len <= numbers) && at.windows(2).all(|at| at[0] + len <= at[1])
        );
        // A matrix larger by one row and column would not fit, or be nearly as large as the layer.
        let larger = ((rows + 1) * (cols + 1) * block[2] * block[3]) as u64;
        let stretched = rows as f64 > 0.9 * block[0] as f64 || cols as f64 > 0.9 * block[1] as f64;
        assert!(from.is_none() || larger > numbers || stretched, "{set}");
    }
}

fn check(json: &str, scale: Option<Scale>) {
    let plan: Value = serde_json::from_str(json).unwrap();
    check_coverage(&plan);
    check_corners(&plan);
    check_groups(&plan);
    check_bill(&plan);
    check_views(&plan);
    let in_blocks = ["grid", "kronecker"].iter().any(|tiling| plan["tiling"].get(tiling).is_some());
    let usual = match plan["tiling"].as_str() {
        Some("stretched") => Scale::Even,
        Some("rank-one") => Scale::Corner,
        _ if in_blocks => Scale::Even,
        _ => Scale::Balanced,
    };
    check_scale(&plan, scale.unwrap_or(usual));
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
    for (i, superweight) in
        plan.superweights.iter().enumerate().filter(|(_, s)| !s.groups.is_empty())
    {
        let users: Vec<LayerId> =
            superweight.groups.iter().flat_map(|g| g.layers.clone()).collect();
        let mut pairs = vec![];
        for (n, &b) in users.iter().enumerate() {
            pairs.extend(users[..n].iter().map(|&a| Pair::new(a, b, next())));
        }
        all.push(CoefficientPairs { superweight: SuperWeightId(i), pairs });
    }
    all
}

#[test]
fn plans_of_large_networks_have_all_properties() {
    for (names, classes, budget) in
        [("wrn-50-2", 1000, 6_888_324), ("mobilenet-v2,wrn-28-5", 100, 9_000_000)]
    {
        for clusters in ["single", "depth:4"] {
            let request = common::request(names, classes, budget, clusters);
            check(&request.plan().unwrap().to_json(), request.scale);
        }
    }
}

#[test]
fn the_independent_reader_detects_damage() {
    let plan =
        common::request("wrn-16-4,wrn-16-2", 10, 300_000, "single").plan().unwrap().to_json();
    check(&plan, None);
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let damages: [fn(&mut Value); 10] = [
        |p| p["superweights"][0]["groups"][0]["shape"][0] = 999.into(),
        |p| p["layers"][2]["tiles"][0]["factor"] = 0.5.into(),
        |p| p["template_sets"][0]["std"] = 0.5.into(),
        |p| p["template_sets"][0]["row_norm"] = 0.5.into(),
        |p| p["bill"]["reserved"] = 7.into(),
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
        assert!(
            std::panic::catch_unwind(|| check(&text, None)).is_err(),
            "damage {i} is not detected"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn feasible_plans_have_all_properties(request in feasible_request()) {
        let plan = request.plan().unwrap();
        let json = plan.to_json();
        check(&json, request.scale);
        prop_assert_eq!(&SharingPlan::from_json(&json).unwrap(), &plan, "JSON round trip");
        prop_assert_eq!(request.plan().unwrap().to_json(), json, "deterministic");
    }

    #[test]
    fn refined_plans_have_all_properties(
        request in feasible_request(),
        beta in -1.1..1.1f64,
        seed: u64,
    ) {
        let plan = request.plan().unwrap();
        match refine(&plan, &random_similarities(&plan, seed), beta, Assignment::Merge) {
            Ok(refined) => {
                check(&refined.plan.to_json(), request.scale);
                let read = SharingPlan::from_json(&refined.plan.to_json()).unwrap();
                prop_assert_eq!(&read, &refined.plan);
                prop_assert!(refined.plan.bill.total() <= request.budget.unwrap());
                prop_assert!(refined.beta <= beta);
            }
            // Layers with similarity −1 never merge; a plan may have too few coefficients for that.
            Err(error) => {
                prop_assert!(matches!(error, PlanError::NoFeasibleThreshold { .. }), "{}", error);
            }
        }
    }

    #[test]
    fn the_smallest_budget_is_exact(mut request in any_request()) {
        request.budget = Some(1);
        let minimum = request.survey().unwrap().min_budget;
        request.budget = Some(minimum - 1);
        match request.plan() {
            Err(PlanError::BudgetTooSmall { needed, .. }) => prop_assert_eq!(needed, minimum),
            other => prop_assert!(false, "{:?}", other),
        }
        request.budget = Some(minimum);
        prop_assert!(request.plan().is_ok());
    }
}
