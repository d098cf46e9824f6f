//! Composition against its definition, its backward pass against finite differences, and initial
//! values against their distributions.

use superweight::engine::{CpuDevice, LayoutBuilder, Memory, MixOutput, ohwi_to_oihw};
use superweight::model::bank;
use superweight::model::bank::{
    Bank, bank_name, coefficients_name, factors_name, patterns_name, templates_name, weight_name,
};
use superweight::plan::arch::ArchName;
use superweight::plan::{
    ClusterId, Clustering, Coefficients, LayerId, LayerKind, Member, PlanRequest, Scale, SetId,
    SharedRoles, SharingPlan, SuperWeightId, Tiling, TilingChoice,
};
use superweight::rng::Draws;

fn request(names: &str, percent: u64) -> PlanRequest {
    let member = |name: &str| {
        let architecture: ArchName = name.parse().unwrap();
        Member { input: architecture.default_input(), architecture, classes: 10 }
    };
    let mut request = PlanRequest::new(names.split(',').map(member).collect(), None);
    request.budget = Some(request.survey().unwrap().dense_total * percent / 100);
    request
}

/// Plans of all tilings, with shared coefficients, coefficients per layer and groups as refinement
/// makes them, for members whose layers differ in shape.
fn plans() -> Vec<SharingPlan> {
    let mut plans = vec![];
    for (names, percent) in [
        ("wrn-10-2,wrn-10-1", 30),
        ("wrn-16-1", 70),
        ("cnn-12-20-9,cnn-7-20-33", 60),
        ("mobilenet-v2-0.1,wrn-10-1", 80),
    ] {
        for tiling in [TilingChoice::Nested, TilingChoice::Grid, TilingChoice::Kronecker] {
            for coefficients in [
                Coefficients::Shared,
                Coefficients::PerLayer,
                Coefficients::Explicit(vec![vec![LayerId(1), LayerId(2)]]),
            ] {
                for (clusters, block) in [("single", 8), ("depth:2", 5), ("random:3:1", 16)] {
                    let clusters: Clustering = clusters.parse().unwrap();
                    let coefficients = coefficients.clone();
                    let request = PlanRequest {
                        tiling,
                        coefficients,
                        clusters,
                        block: Some(block),
                        shared_roles: SharedRoles {
                            classifier: Some(block == 5),
                            ..SharedRoles::default()
                        },
                        ..request(names, percent)
                    };
                    plans.extend(request.plan());
                }
            }
        }
    }
    for (names, percent, most) in [
        ("wrn-10-2,wrn-10-1", 10, None),
        ("wrn-16-1", 20, None),
        ("cnn-12-20-9,cnn-7-20-33", 60, Some(4)),
        ("mobilenet-v2-0.1,wrn-10-1", 50, None),
    ] {
        for clusters in ["single", "depth:2", "random:3:1"] {
            let (tiling, coefficients) = (TilingChoice::Stretched, Coefficients::PerLayer);
            let clusters = clusters.parse().unwrap();
            let request = request(names, percent);
            let request =
                PlanRequest { tiling, coefficients, clusters, max_templates: most, ..request };
            plans.push(request.plan().unwrap());
        }
    }
    for (names, clusters) in [("wrn-10-1,wrn-10-1", "per-position"), ("cnn-12-20-9", "single")] {
        let (tiling, clusters) = (TilingChoice::RankOne, clusters.parse().unwrap());
        let shared_roles = SharedRoles { stem: true, classifier: None };
        plans.push(
            PlanRequest { tiling, clusters, shared_roles, ..request(names, 110) }.plan().unwrap(),
        );
    }
    let count = |of: &dyn Fn(Tiling) -> bool| plans.iter().filter(|plan| of(plan.tiling)).count();
    assert!(count(&|tiling| tiling == Tiling::Nested) > 10);
    assert!(count(&|tiling| matches!(tiling, Tiling::Grid { .. })) > 10);
    assert!(count(&|tiling| matches!(tiling, Tiling::Kronecker { .. })) > 10);
    assert_eq!(count(&|tiling| tiling == Tiling::Stretched), 12);
    assert_eq!(count(&|tiling| tiling == Tiling::RankOne), 2);
    let views =
        || plans.iter().flat_map(|plan| &plan.template_sets).filter_map(|set| set.view.as_ref());
    let stretched = views().filter(|view| view.from.is_some()).count();
    assert!(
        stretched > 20 && stretched + 20 < views().count(),
        "{stretched} of {} are stretched",
        views().count()
    );
    plans
}

fn bank(plan: &SharingPlan, threads: usize) -> (Bank<CpuDevice>, Memory<CpuDevice>) {
    decayed_bank(plan, threads, 0.0)
}

fn decayed_bank(
    plan: &SharingPlan,
    threads: usize,
    weight_decay: f32,
) -> (Bank<CpuDevice>, Memory<CpuDevice>) {
    let device = CpuDevice::new(threads).unwrap();
    let mut builder = LayoutBuilder::new();
    for (i, layer) in plan.layers().enumerate() {
        builder.parameter(weight_name(plan, LayerId(i)), layer.len() as usize).unwrap();
    }
    for vector in &plan.vectors {
        builder.parameter(bank::scope(vector.member) + &vector.name, vector.len as usize).unwrap();
    }
    bank::declare(plan, &mut builder).unwrap();
    let layout = builder.finish(&device);
    let bank = Bank::new(&device, plan.clone(), &layout, weight_decay).unwrap();
    let mut memory = Memory::new(&device, layout, bank.scratch_bytes()).unwrap();
    bank::initialize(plan, &mut memory, 7).unwrap();
    (bank, memory)
}

/// Templates as they are read from a bank, in OHWI order. The bank has an OIHW matrix,
/// `[out, in·kh·kw]`, which is interpolated to the block's shape as by PyTorch's
/// `interpolate(mode="bilinear", align_corners=False)`, then multiplied by rank-one factors.
fn viewed_templates(plan: &SharingPlan, memory: &Memory<CpuDevice>, id: SetId) -> Vec<f32> {
    let set = plan.set(id);
    let ([rows, cols, kh, kw], view) = (set.block, set.view.as_ref().unwrap());
    let (area, bank) = (kh * kw, memory.parameter(&bank_name(set.cluster)).unwrap());
    let from = view.from.unwrap_or([rows, cols]);
    // The two source indices that place `n` is interpolated from, with their weights.
    let neighbours = |n: usize, from: usize, to: usize| {
        let place = ((n as f64 + 0.5) * from as f64 / to as f64 - 0.5).max(0.0);
        [(place as usize, 1.0 - place.fract()), ((place as usize + 1).min(from - 1), place.fract())]
    };
    let factors = match plan.factor_parameters(id) {
        0 => vec![1.0; rows + cols],
        _ => memory.parameter(&factors_name(id)).unwrap(),
    };
    let mut templates = vec![];
    for &at in &view.at {
        for r in 0..rows {
            for n in 0..area * cols {
                let column = n % cols * area + n / cols;
                let mut value = 0.0;
                let factor = f64::from(factors[r]) * f64::from(factors[rows + n % cols]);
                for (row, a) in neighbours(r, from[0], rows) {
                    for (column, b) in neighbours(column, from[1] * area, cols * area) {
                        let place = at as usize + row * from[1] * area + column;
                        value += a * b * f64::from(bank[place]);
                    }
                }
                templates.push((factor * value) as f32);
            }
        }
    }
    templates
}

/// A layer's weight, computed element by element in f64 from the definitions of the plan, in OIHW
/// order.
fn by_definition(plan: &SharingPlan, memory: &Memory<CpuDevice>, id: LayerId) -> Vec<f64> {
    let planned = &plan.layers[id.0];
    let (inp, kernel) = (planned.layer.inp, planned.layer.kernel_area());
    let mut weight = vec![f64::NAN; planned.layer.len() as usize];
    for tile in &planned.tiles {
        let superweight = plan.superweight(tile.superweight);
        let set = plan.set(superweight.set);
        let [height, width, kh, kw] = set.block;
        let k = set.templates;
        let templates = match set.view {
            Some(_) => viewed_templates(plan, memory, superweight.set),
            None => memory.parameter(&templates_name(superweight.set)).unwrap(),
        };
        // Rows of α are ordered by SuperWeight, then by group.
        let mut alpha: Option<(Vec<[usize; 2]>, Vec<f32>)> = None;
        if k > 1 {
            let numbers = memory.parameter(&coefficients_name(superweight.set)).unwrap();
            let patterns = memory.parameter(&patterns_name(superweight.set)).ok();
            assert_eq!(patterns.is_some(), plan.has_patterns());
            let (mut row, mut pattern) = (0, 0);
            for (s, other) in
                plan.superweights.iter().enumerate().filter(|(_, o)| o.set == superweight.set)
            {
                let cells = plan.pattern_cells(SuperWeightId(s));
                for group in &other.groups {
                    if s == tile.superweight.0 && group.layers.contains(&id) {
                        let own = &numbers[row * k..(row + group.shape[0]) * k];
                        alpha = Some(match &patterns {
                            None => (plan.coefficient_cells(tile.superweight, group), own.to_vec()),
                            Some(patterns) => {
                                let rows = patterns[pattern * k..][..cells.len() * k].chunks(k);
                                let gains =
                                    rows.flat_map(|p| p.iter().zip(own).map(|(p, g)| p * g));
                                (cells.clone(), gains.collect())
                            }
                        });
                    }
                    row += group.shape[0];
                }
                pattern += cells.len();
            }
        }
        for o in tile.at.rows.start..tile.at.rows.end {
            for i in tile.at.cols.start..tile.at.cols.end {
                let (r, c) = (o - superweight.at.rows.start, i - superweight.at.cols.start);
                let cell = [r / height, c / width];
                for p in 0..kernel {
                    let template = |t: usize| {
                        let inside = ((r % height) * kh * kw + p) * width + c % width;
                        f64::from(templates[t * height * width * kh * kw + inside])
                    };
                    let value: f64 = match &alpha {
                        None => template(0),
                        Some((cells, alpha)) => {
                            let row = cells.iter().position(|c| *c == cell).unwrap();
                            (0..k).map(|t| f64::from(alpha[row * k + t]) * template(t)).sum()
                        }
                    };
                    weight[(o * inp + i) * kernel + p] = tile.factor * value;
                }
            }
        }
    }
    weight
}

/// A layer's composed weight in OIHW order.
fn oihw(plan: &SharingPlan, memory: &Memory<CpuDevice>, id: LayerId) -> Vec<f32> {
    let layer = plan.layer(id);
    let dims = [layer.out, layer.inp, layer.kernel[0], layer.kernel[1]];
    ohwi_to_oihw(&memory.parameter(&weight_name(plan, id)).unwrap(), dims)
}

/// Ids of all layers that are composed.
fn composed(plan: &SharingPlan) -> impl Iterator<Item = LayerId> + '_ {
    plan.layers.iter().enumerate().filter(|(_, l)| !l.tiles.is_empty()).map(|(i, _)| LayerId(i))
}

#[test]
fn composed_weights_equal_their_definition() {
    for plan in plans() {
        let (bank, mut memory) = bank(&plan, 2);
        bank.compose(&mut memory, MixOutput::AllCopies).unwrap();
        for id in composed(&plan) {
            let (found, expected) = (oihw(&plan, &memory, id), by_definition(&plan, &memory, id));
            let error: f64 =
                found.iter().zip(&expected).map(|(f, e)| (f64::from(*f) - e).powi(2)).sum();
            let norm: f64 = expected.iter().map(|e| e * e).sum();
            assert!((error / norm).sqrt() < 1e-6, "{} of {}", plan.layer(id).name, plan.tiling);
        }
    }
}

/// The loss L = Σ ⟨u, W⟩ + λ/2·|W of linear layers|² is linear or quadratic in templates, patterns
/// and coefficients, each by itself. A central difference with step 1 is therefore exact up to
/// rounding.
#[test]
fn backward_equals_finite_differences() {
    let mut decayed = 0;
    for (n, plan) in plans().into_iter().enumerate() {
        let weight_decay = if n % 2 == 0 { 0.0 } else { 0.3 };
        let (bank, mut memory) = decayed_bank(&plan, 2, weight_decay);
        let random = |word: usize, len: usize| -> Vec<f32> {
            let draws = Draws::new(&[n as u64, word as u64]);
            (0..len as u64).map(|i| draws.signed_unit(i) as f32).collect()
        };
        let upstream: Vec<(String, Vec<f32>, f32)> = composed(&plan)
            .map(|id| {
                let layer = plan.layer(id);
                // Where layers read a bank, weight decay acts on the bank, not on the weights.
                let of_bank = plan.tiling.has_banks();
                let weight_decay =
                    if layer.kind == LayerKind::Linear && !of_bank { weight_decay } else { 0.0 };
                (weight_name(&plan, id), random(id.0, layer.len() as usize), weight_decay)
            })
            .collect();
        for (name, values, _) in &upstream {
            memory.set_gradient(name, values).unwrap();
        }
        bank.compose(&mut memory, MixOutput::AllCopies).unwrap();
        bank.compose_backward(&mut memory).unwrap();
        let dot = |a: &[f32], b: &[f32]| {
            a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
        };
        decayed += usize::from(upstream.iter().any(|(_, _, weight_decay)| *weight_decay > 0.0));
        let of_set = |set: SetId| {
            let mut names = vec![];
            names.extend(plan.set(set).view.is_none().then(|| templates_name(set)));
            let mixed = plan.set(set).templates > 1;
            names.extend(mixed.then(|| coefficients_name(set)));
            names.extend((mixed && plan.has_patterns()).then(|| patterns_name(set)));
            names.extend((plan.factor_parameters(set) > 0).then(|| factors_name(set)));
            (set.0, names)
        };
        let banks = plan.clusters.iter().enumerate().filter(|(_, cluster)| cluster.bank.is_some());
        let banks = banks.map(|(i, _)| (500 + i, vec![bank_name(ClusterId(i))]));
        for (word, names) in (0..plan.template_sets.len()).map(SetId).map(of_set).chain(banks) {
            for name in names {
                let (before, gradient) =
                    (memory.parameter(&name).unwrap(), memory.gradient(&name).unwrap());
                let direction = random(1000 + word, before.len());
                let mut loss = |step: f32| -> f64 {
                    let moved: Vec<f32> =
                        before.iter().zip(&direction).map(|(p, d)| p + step * d).collect();
                    memory.set_parameter(&name, &moved).unwrap();
                    bank.compose(&mut memory, MixOutput::AllCopies).unwrap();
                    let of = |(name, u, weight_decay): &(String, Vec<f32>, f32)| {
                        let w = memory.parameter(name).unwrap();
                        dot(&w, u) + f64::from(*weight_decay) / 2.0 * dot(&w, &w)
                    };
                    upstream.iter().map(of).sum()
                };
                let slope = (loss(1.0) - loss(-1.0)) / 2.0;
                loss(0.0);
                let scale =
                    dot(&gradient, &gradient).sqrt().max(1e-6) * dot(&direction, &direction).sqrt();
                let expected = dot(&gradient, &direction);
                assert!((slope - expected).abs() < 1e-5 * scale, "{name}: {slope} {expected}");
            }
        }
    }
    assert!(decayed > 5, "{decayed} plans share a classifier");
}

#[test]
fn every_layer_starts_with_the_standard_deviation_of_he() {
    let mut checked = 0;
    let requests =
        [("wrn-28-10", 10), ("wrn-28-10", 1), ("wrn-16-4,wrn-16-2", 25), ("wrn-16-4,wrn-10-2", 60)];
    for (names, percent) in requests {
        use TilingChoice::{Auto, Kronecker, Stretched};
        for (coefficients, scale, tiling) in [
            (Coefficients::Shared, Scale::Balanced, Auto),
            (Coefficients::PerLayer, Scale::Balanced, Auto),
            (Coefficients::PerLayer, Scale::Even, Auto),
            (Coefficients::Shared, Scale::He, Auto),
            (Coefficients::Shared, Scale::Even, Kronecker),
            (Coefficients::PerLayer, Scale::Balanced, Kronecker),
            (Coefficients::PerLayer, Scale::Even, Stretched),
            (Coefficients::PerLayer, Scale::Balanced, Stretched),
        ] {
            let request =
                PlanRequest { coefficients, scale: Some(scale), tiling, ..request(names, percent) };
            let plan = request.plan().unwrap();
            let (bank, mut memory) = bank(&plan, 2);
            bank.compose(&mut memory, MixOutput::AllCopies).unwrap();
            for id in composed(&plan) {
                let sets: std::collections::BTreeSet<_> = plan.layers[id.0]
                    .tiles
                    .iter()
                    .map(|t| plan.superweight(t.superweight).set)
                    .collect();
                let parameters: u64 = sets
                    .iter()
                    .map(|&s| plan.set(s).templates as u64 * plan.set(s).block_len())
                    .sum();
                if parameters < 2000 {
                    continue;
                }
                let weight = memory.parameter(&weight_name(&plan, id)).unwrap();
                let square: f64 = weight.iter().map(|w| f64::from(*w).powi(2)).sum();
                let ratio = (square / weight.len() as f64).sqrt() / plan.layer(id).he_std();
                assert!(
                    (ratio - 1.0).abs() < 0.1,
                    "{} of {names} at {percent}%: {ratio}",
                    plan.layer(id).name
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 300, "{checked}");
}

/// Slimmable Networks: with one template per set and the corner scale, a narrow layer is the corner
/// of the wide layer at its position.
#[test]
fn a_narrow_layer_is_the_corner_of_a_wide_one() {
    let request = PlanRequest {
        clusters: Clustering::PerPosition,
        tiling: TilingChoice::Nested,
        shared_roles: SharedRoles { stem: true, classifier: Some(true) },
        scale: Some(Scale::Corner),
        max_templates: Some(1),
        ..request("wrn-10-4,wrn-10-3,wrn-10-1", 100)
    };
    let plan = request.plan().unwrap();
    let (bank, mut memory) = bank(&plan, 2);
    bank.compose(&mut memory, MixOutput::AllCopies).unwrap();
    let mut compared = 0;
    for cluster in &plan.clusters {
        let [wide, rest @ ..] = &cluster.layers[..] else { panic!("a cluster of nothing") };
        let inputs = plan.layer(*wide).inp;
        let all = memory.parameter(&weight_name(&plan, *wide)).unwrap();
        for narrow in rest {
            let few = plan.layer(*narrow).inp;
            for (i, &number) in
                memory.parameter(&weight_name(&plan, *narrow)).unwrap().iter().enumerate()
            {
                let (row, input) = (i / few, i % few);
                assert_eq!(number, all[row * inputs + input], "{}", plan.layer(*narrow).name);
                compared += 1;
            }
        }
    }
    assert!(compared > 100_000, "{compared}");
}

/// Relative speeds |gradient|/|parameters| of templates, coefficients and patterns, divided by that
/// of the weights composed of them. The gradients of the weights are independent noise.
fn speeds(scale: Scale, tiling: TilingChoice, block: usize, percent: u64) -> Vec<f64> {
    let request = PlanRequest {
        scale: Some(scale),
        shared_roles: SharedRoles { classifier: Some(false), ..SharedRoles::default() },
        coefficients: Coefficients::PerLayer,
        tiling,
        block: Some(block),
        ..request("cnn-32-32-32-32-32-32", percent)
    };
    let plan = request.plan().unwrap();
    let (bank, mut memory) = bank(&plan, 2);
    bank.compose(&mut memory, MixOutput::AllCopies).unwrap();
    for id in composed(&plan) {
        let draws = Draws::new(&[id.0 as u64]);
        let noise: Vec<f32> = (0..plan.layer(id).len()).map(|n| draws.normal(n) as f32).collect();
        memory.set_gradient(&weight_name(&plan, id), &noise).unwrap();
    }
    bank.compose_backward(&mut memory).unwrap();
    let share = |names: Vec<String>| {
        let squares =
            |numbers: Vec<f32>| numbers.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
        let sum =
            |of: &dyn Fn(&str) -> Vec<f32>| names.iter().map(|name| squares(of(name))).sum::<f64>();
        (sum(&|name| memory.gradient(name).unwrap()) / sum(&|name| memory.parameter(name).unwrap()))
            .sqrt()
    };
    assert_eq!(plan.template_sets.len(), 1);
    let plain = share(composed(&plan).map(|id| weight_name(&plan, id)).collect());
    let mut names = vec![templates_name(SetId(0)), coefficients_name(SetId(0))];
    names.extend(plan.has_patterns().then(|| patterns_name(SetId(0))));
    names.into_iter().map(|name| share(vec![name]) / plain).collect()
}

#[test]
fn on_the_even_scale_templates_and_coefficients_learn_as_fast_as_weights() {
    for tiling in [TilingChoice::Grid, TilingChoice::Kronecker] {
        for (block, percent) in [(4, 10), (8, 10), (8, 50), (16, 50)] {
            let even = speeds(Scale::Even, tiling, block, percent);
            assert!(
                even.iter().all(|speed| (0.8..1.25).contains(speed)),
                "{block} at {percent}%: {even:?}"
            );
        }
    }
    // On the balanced scale both learn more slowly, the smaller the blocks are.
    let [balanced, small] =
        [8, 4].map(|block| speeds(Scale::Balanced, TilingChoice::Grid, block, 10));
    assert!(balanced.iter().all(|&speed| speed < 0.5), "{balanced:?}");
    assert!((0..2).all(|i| small[i] < 0.7 * balanced[i]), "{small:?} {balanced:?}");
}

#[test]
fn a_dense_plan_composes_nothing() {
    let plan =
        PlanRequest { clusters: Clustering::Dense, ..request("wrn-10-1", 100) }.plan().unwrap();
    let (bank, mut memory) = bank(&plan, 1);
    assert_eq!(bank.scratch_bytes(), 0);
    let before = memory.parameter("0.conv1.weight").unwrap();
    bank.compose(&mut memory, MixOutput::AllCopies).unwrap();
    assert_eq!(memory.parameter("0.conv1.weight").unwrap(), before);
}
