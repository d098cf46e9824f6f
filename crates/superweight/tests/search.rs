//! Eq. 2 and Eq. 3 against their definitions on whole networks, and what refinement preserves.

use std::collections::BTreeMap;

use superweight::engine::{CpuDevice, Sgd, SgdOptions, ohwi_to_oihw};
use superweight::model::OutputId;
use superweight::model::bank;
use superweight::model::bank::{coefficients_name, patterns_name, templates_name, weight_name};
use superweight::model::ensemble::{Ensemble, EnsembleOptions, ParameterKind};
use superweight::plan::arch::{ArchName, ImageShape};
use superweight::plan::{
    Assignment, Clustering, LayerId, Member, PlanRequest, SetId, SharingPlan, SuperWeightId,
    Tiling, TilingChoice, refine,
};
use superweight::recipe::Similarity;
use superweight::rng::Draws;
use superweight::search::{
    CoefficientGradientSums, Compared, SearchError, SearchProbe, SoftmaxCoefficients,
    coefficient_pairs, compare_layers,
};

const IMAGE: ImageShape = ImageShape { channels: 3, height: 8, width: 8 };
const BATCH: usize = 4;
const SGD: SgdOptions = SgdOptions { momentum: 0.9, nesterov: true };

/// Plans of two members of different width and depth, hard-shared with room to refine: nested, grid
/// with cropped cells, and Kronecker with patterns over such a grid.
fn plans() -> Vec<SharingPlan> {
    let member = |name: &str| Member {
        architecture: name.parse::<ArchName>().unwrap(),
        input: IMAGE,
        classes: 10,
    };
    let plan = |tiling, budget, clusters| {
        let members = ["wrn-16-1", "wrn-10-2"].map(member).to_vec();
        let request = PlanRequest::new(members, budget);
        PlanRequest { tiling, block: Some(12), clusters, ..request }.plan().unwrap()
    };
    let plans = vec![
        plan(TilingChoice::Nested, 450_000, Clustering::Depth(2)),
        plan(TilingChoice::Grid, 150_000, Clustering::Single),
        plan(TilingChoice::Kronecker, 150_000, Clustering::Single),
    ];
    assert_eq!(plans[0].tiling, Tiling::Nested);
    assert!(plans.iter().all(|plan| plan.bill.reserved > 0 && plan.bill.coefficients > 0));
    plans
}

fn ensemble(plan: &SharingPlan) -> (Ensemble<CpuDevice>, Sgd<CpuDevice>) {
    let device = CpuDevice::new(2).unwrap();
    let options = EnsembleOptions::train(BATCH);
    let mut ensemble = Ensemble::new(&device, plan, &options).unwrap();
    bank::initialize(plan, ensemble.memory_mut(), 3).unwrap();
    let optimizer = ensemble.optimizer(SGD, |_| 5e-4).unwrap();
    (ensemble, optimizer)
}

/// Sets a random batch and computes all gradients.
fn backward(ensemble: &mut Ensemble<CpuDevice>, seed: u64) {
    let draws = Draws::new(&[seed]);
    let images: Vec<f32> =
        (0..(BATCH * 8 * 8 * 3) as u64).map(|n| draws.normal(n) as f32).collect();
    let labels: Vec<u32> =
        (0..BATCH as u64).map(|n| (draws.bits(1_000_000 + n) % 10) as u32).collect();
    ensemble.set_batch(&images, &labels).unwrap();
    ensemble.gradients().unwrap();
}

fn update(ensemble: &mut Ensemble<CpuDevice>, optimizer: &mut Sgd<CpuDevice>) {
    optimizer.set_lrs(&[0.05; ParameterKind::ALL.len()]).unwrap();
    optimizer.step(ensemble.memory_mut());
}

/// A tensor of a layer in OIHW order, in f64: `[o][i][kernel position]`.
fn oihw(plan: &SharingPlan, id: LayerId, values: &[f32]) -> Vec<f64> {
    let layer = plan.layer(id);
    let dims = [layer.out, layer.inp, layer.kernel[0], layer.kernel[1]];
    ohwi_to_oihw(values, dims).into_iter().map(f64::from).collect()
}

fn clustered(plan: &SharingPlan) -> Vec<LayerId> {
    plan.clusters.iter().flat_map(|cluster| cluster.layers.clone()).collect()
}

fn close(found: f64, expected: f64, scale: f64, what: &str) {
    assert!((found - expected).abs() <= 2e-5 * scale, "{what}: {found} is not {expected}");
}

/// Eq. 2, element by element: dot product and norms over the corner that both layers have, of
/// gradients summed over three training steps.
#[test]
fn eq_2_is_the_cosine_over_the_common_corner() {
    for plan in plans() {
        let (mut ensemble, mut optimizer) = ensemble(&plan);
        let mut probe = SearchProbe::new(Similarity::Gradient, &ensemble).unwrap();
        let mut sums: BTreeMap<LayerId, Vec<f64>> = BTreeMap::new();
        for step in 0..3 {
            backward(&mut ensemble, step);
            probe.observe(&ensemble);
            for id in clustered(&plan) {
                let gradient = ensemble.memory().gradient(&weight_name(&plan, id)).unwrap();
                let sum = sums.entry(id).or_insert_with(|| vec![0.0; gradient.len()]);
                sum.iter_mut().zip(oihw(&plan, id, &gradient)).for_each(|(sum, g)| *sum += g);
            }
            update(&mut ensemble, &mut optimizer);
        }
        let Compared::Gradients(pairs) = probe.finish(&mut ensemble).unwrap().compared else {
            panic!()
        };
        let expected: usize =
            plan.clusters.iter().map(|c| c.layers.len() * (c.layers.len() - 1) / 2).sum();
        assert_eq!(pairs.len(), expected);
        let mut clipped = 0;
        for pair in pairs {
            let (a, b) = (plan.layer(pair.a), plan.layer(pair.b));
            let (mut dot, mut squares) = (0.0, [0.0; 2]);
            for o in 0..a.out.min(b.out) {
                for i in 0..a.inp.min(b.inp) {
                    for p in 0..a.kernel_area() {
                        let x = sums[&pair.a][(o * a.inp + i) * a.kernel_area() + p];
                        let y = sums[&pair.b][(o * b.inp + i) * b.kernel_area() + p];
                        dot += x * y;
                        squares[0] += x * x;
                        squares[1] += y * y;
                    }
                }
            }
            clipped += usize::from([a.out, a.inp] != [b.out, b.inp]);
            let scale = (squares[0] * squares[1]).sqrt();
            assert!(scale > 0.0);
            close(pair.dot, dot, scale, "dot");
            close(pair.squares[0], squares[0], squares[0], "square");
            close(pair.squares[1], squares[1], squares[1], "square");
            close(pair.similarity(), dot / scale, 1.0, "similarity");
        }
        assert!(clipped > 3, "some pairs differ in shape");
    }
}

/// Eq. 3, element by element: ⟨dL/dWᵢ on the cell, Tₖ⟩ times the layer's factor, with the templates
/// of each step.
#[test]
fn eq_3_compares_the_gradients_along_the_templates() {
    for plan in plans() {
        let (mut ensemble, mut optimizer) = ensemble(&plan);
        let mut sums = CoefficientGradientSums::new(&plan, ensemble.memory()).unwrap();
        let mut direct: BTreeMap<(usize, LayerId), Vec<f64>> = BTreeMap::new();
        for step in 0..3 {
            backward(&mut ensemble, step);
            let before: Vec<Vec<f32>> = sets(&plan)
                .map(|set| ensemble.memory().gradient(&templates_name(set)).unwrap())
                .collect();
            sums.observe(ensemble.memory_mut()).unwrap();
            let after: Vec<Vec<f32>> = sets(&plan)
                .map(|set| ensemble.memory().gradient(&templates_name(set)).unwrap())
                .collect();
            assert_eq!(before, after, "the probe changes no gradient of the bank");
            add_directly(&plan, &ensemble, &mut direct);
            update(&mut ensemble, &mut optimizer);
        }
        let found = sums.read(&plan);
        assert!(found.len() > 8);
        for gradient in &found {
            let expected = &direct[&(gradient.superweight.0, gradient.layer)];
            let scale = expected.iter().map(|x| x * x).sum::<f64>().sqrt();
            assert_eq!(gradient.values.len(), expected.len());
            for (found, expected) in gradient.values.iter().zip(expected) {
                close(f64::from(*found), *expected, scale, "dL/dα");
            }
        }
        // Cosines of these gradients, over the cells that both layers use.
        for of in coefficient_pairs(&plan, &found).unwrap() {
            for pair in of.pairs {
                let vector = |layer| {
                    let gradient = found
                        .iter()
                        .find(|g| g.superweight == of.superweight && g.layer == layer)
                        .unwrap();
                    (gradient.shape, &direct[&(of.superweight.0, layer)])
                };
                let ((a, x), (b, y)) = (vector(pair.a), vector(pair.b));
                let (mut dot, mut squares) = (0.0, [0.0; 2]);
                for r in 0..a[0].min(b[0]) {
                    for c in 0..a[1].min(b[1]) {
                        for k in 0..a[2] {
                            let (x, y) =
                                (x[(r * a[1] + c) * a[2] + k], y[(r * b[1] + c) * b[2] + k]);
                            dot += x * y;
                            squares[0] += x * x;
                            squares[1] += y * y;
                        }
                    }
                }
                close(pair.similarity, dot / (squares[0] * squares[1]).sqrt(), 1.0, "similarity");
            }
        }
    }
}

fn sets(plan: &SharingPlan) -> impl Iterator<Item = SetId> {
    (0..plan.template_sets.len()).map(SetId)
}

/// Patterns of a SuperWeight: K values for each of its cells.
fn patterns_of(
    plan: &SharingPlan,
    ensemble: &Ensemble<CpuDevice>,
    id: SuperWeightId,
) -> BTreeMap<[usize; 2], Vec<f32>> {
    let set = plan.superweight(id).set;
    let numbers = ensemble.memory().parameter(&patterns_name(set)).unwrap();
    let before = (0..id.0).map(SuperWeightId).filter(|&other| plan.superweight(other).set == set);
    let first: usize = before.map(|other| plan.pattern_cells(other).len()).sum();
    let rows = numbers.chunks(plan.set(set).templates).skip(first).map(<[f32]>::to_vec);
    plan.pattern_cells(id).into_iter().zip(rows).collect()
}

/// Adds dL/dα of every layer and SuperWeight, computed from the definition.
fn add_directly(
    plan: &SharingPlan,
    ensemble: &Ensemble<CpuDevice>,
    sums: &mut BTreeMap<(usize, LayerId), Vec<f64>>,
) {
    for id in clustered(plan) {
        let layer = plan.layer(id);
        let gradient = oihw(plan, id, &ensemble.memory().gradient(&weight_name(plan, id)).unwrap());
        for tile in &plan.layers[id.0].tiles {
            let superweight = plan.superweight(tile.superweight);
            let set = plan.set(superweight.set);
            let ([height, width, ..], k, area) = (set.block, set.templates, layer.kernel_area());
            let [rows, cols] = plan.cells(superweight.set, &tile.at);
            let templates = ensemble.memory().parameter(&templates_name(superweight.set)).unwrap();
            // With patterns a layer has K coefficients, each of which multiplies a pattern.
            let patterns =
                plan.has_patterns().then(|| patterns_of(plan, ensemble, tile.superweight));
            let len = if patterns.is_some() { k } else { rows * cols * k };
            let sum = sums.entry((tile.superweight.0, id)).or_insert_with(|| vec![0.0; len]);
            for o in tile.at.rows.start..tile.at.rows.end {
                for i in tile.at.cols.start..tile.at.cols.end {
                    let (r, c) = (o - tile.at.rows.start, i - tile.at.cols.start);
                    let cell = [r / height, c / width];
                    let row = if patterns.is_some() { 0 } else { cell[0] * cols + cell[1] };
                    for (p, t) in (0..area).flat_map(|p| (0..k).map(move |t| (p, t))) {
                        // Templates are stored as [k, rows, positions, columns].
                        let at = ((t * height + r % height) * area + p) * width + c % width;
                        let pattern =
                            patterns.as_ref().map_or(1.0, |cells| f64::from(cells[&cell][t]));
                        sum[row * k + t] += tile.factor
                            * gradient[(o * layer.inp + i) * area + p]
                            * f64::from(templates[at])
                            * pattern;
                    }
                }
            }
        }
    }
}

/// Trains hard-shared, refines by the gradients of that training, compares logits before and after,
/// and trains on.
#[test]
fn refinement_changes_no_logit_and_keeps_the_budget() {
    for plan in plans() {
        let (mut ensemble, mut optimizer) = ensemble(&plan);
        let mut sums = CoefficientGradientSums::new(&plan, ensemble.memory()).unwrap();
        for step in 0..4 {
            backward(&mut ensemble, step);
            sums.observe(ensemble.memory_mut()).unwrap();
            update(&mut ensemble, &mut optimizer);
        }
        let logits = |ensemble: &mut Ensemble<CpuDevice>| -> Vec<u32> {
            backward(ensemble, 77);
            let all = (0..2).flat_map(|m| ensemble.logits(OutputId(m)).unwrap());
            all.map(f32::to_bits).collect()
        };
        let momentum = |ensemble: &Ensemble<CpuDevice>, optimizer: &Sgd<CpuDevice>, set: SetId| {
            let region = ensemble.memory().layout().parameter(&coefficients_name(set)).unwrap();
            optimizer.momentum(region).unwrap()
        };
        let pairs = coefficient_pairs(&plan, &sums.read(&plan)).unwrap();
        let refined = refine(&plan, &pairs, 0.5, Assignment::Merge).unwrap().plan;
        let groups =
            |plan: &SharingPlan| plan.superweights.iter().map(|s| s.groups.len()).sum::<usize>();
        assert!(groups(&refined) > groups(&plan) + 3, "something splits");
        let budget = plan.budget.unwrap();
        assert!(plan.bill.total() <= budget && refined.bill.total() <= budget);
        assert!(refined.bill.trained() > plan.bill.trained());

        let before = logits(&mut ensemble);
        let old_momentum: Vec<_> = sets(&plan)
            .filter(|&set| plan.set(set).templates > 1)
            .map(|set| momentum(&ensemble, &optimizer, set))
            .collect();
        ensemble.refine(refined.clone(), &mut optimizer).unwrap();
        assert_eq!(ensemble.plan(), &refined);
        assert_eq!(logits(&mut ensemble), before);
        for (set, old) in sets(&plan).filter(|&set| plan.set(set).templates > 1).zip(old_momentum) {
            let k = plan.set(set).templates;
            let rows = |values: &[f32]| -> Vec<Vec<u32>> {
                let mut rows: Vec<_> = values
                    .chunks(k)
                    .map(|row| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
                    .filter(|row| row.iter().any(|&bits| bits != 0))
                    .collect();
                rows.sort();
                rows.dedup();
                rows
            };
            let new = momentum(&ensemble, &optimizer, set);
            assert_eq!(rows(&new), rows(&old), "every row is a copy, and every row was copied");
            let live = |values: &[f32]| {
                values.chunks(k).filter(|row| row.iter().any(|&x| x != 0.0)).count()
            };
            assert!(live(&new) >= live(&old));
        }
        // From here on the coefficients of groups that were split differ.
        update(&mut ensemble, &mut optimizer);
        assert_ne!(logits(&mut ensemble), before);
        let split = refined.superweights.iter().find(|s| s.groups.len() > 1).unwrap();
        let alpha = ensemble.memory().parameter(&coefficients_name(split.set)).unwrap();
        let k = refined.set(split.set).templates;
        let mut rows: Vec<&[f32]> =
            alpha.chunks(k).filter(|row| row.iter().any(|&x| x != 0.0)).collect();
        let count = rows.len();
        rows.sort_by(|a, b| a.partial_cmp(b).unwrap());
        rows.dedup();
        assert_eq!(rows.len(), count);
    }
}

/// Where blocks are not cropped, the sums take at most as much memory as the weights.
#[test]
fn sums_take_at_most_a_copy_of_the_weights() {
    let member = Member { architecture: "wrn-16-2".parse().unwrap(), input: IMAGE, classes: 10 };
    let request =
        PlanRequest { tiling: TilingChoice::Grid, ..PlanRequest::new(vec![member], 200_000) };
    let plan = PlanRequest { block: Some(16), ..request }.plan().unwrap();
    let (ensemble, _) = ensemble(&plan);
    let weights: u64 = plan.layers().map(|layer| layer.len()).sum();
    let copy = weights as usize * 4;
    let summed: u64 = clustered(&plan).iter().map(|&id| plan.layer(id).len()).sum();
    assert!(summed <= weights, "Σ dL/dW is of clustered layers alone");
    // For dL/dα: scratch space to gather the cells of all layers, and a row for each cell.
    let bank = ensemble.bank();
    let scratch = bank.refined_scratch_bytes();
    let rows: usize = sets(&plan)
        .filter_map(|set| ensemble.memory().layout().parameter(&format!("probe.{set}")).ok())
        .map(|region| region.len * 4)
        .sum();
    assert!(
        rows > 0 && scratch - bank.scratch_bytes() + 3 * rows <= copy,
        "{scratch} {rows} {copy}"
    );
}

#[test]
fn a_zero_gradient_has_similarity_zero_and_nan_is_an_error() {
    let plan = &plans()[1];
    let mut gradients: BTreeMap<LayerId, Vec<f32>> = clustered(plan)
        .into_iter()
        .map(|id| (id, vec![1.0; plan.layer(id).len() as usize]))
        .collect();
    let first = plan.clusters[0].layers[0];
    gradients.insert(first, vec![0.0; plan.layer(first).len() as usize]);
    for pair in compare_layers(plan, &gradients, "Σ dL/dW").unwrap() {
        let expected = if pair.a == first || pair.b == first { 0.0 } else { 1.0 };
        assert!((pair.similarity() - expected).abs() < 1e-12);
    }
    gradients.get_mut(&first).unwrap()[5] = f32::NAN;
    let error = compare_layers(plan, &gradients, "Σ dL/dW").unwrap_err();
    assert!(matches!(error, SearchError::NotFinite { .. }));
    let name = weight_name(plan, first);
    assert_eq!(
        error.to_string(),
        format!(
            "Σ dL/dW of {name} is not finite: training diverged; lower search.lr (or train.lr)"
        )
    );
}

/// α = softmax(logits): the gradient of the logits is the slope of the loss along it, and the
/// logits are unchanged after a step.
#[test]
fn logits_have_the_gradient_through_the_softmax() {
    let plan = &plans()[1];
    let (mut ensemble, _) = ensemble(plan);
    let name = coefficients_name(SetId(0));
    let logits = ensemble.memory().parameter(&name).unwrap();
    let softened = SoftmaxCoefficients::apply(&mut ensemble).unwrap();
    {
        let rows = ensemble.memory().parameter(&name).unwrap();
        for row in rows.chunks(plan.set(SetId(0)).templates).take(bank::live_rows(plan)[0]) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5 && row.iter().all(|&x| x > 0.0));
        }
    }
    backward(&mut ensemble, 5);
    softened.backward(&mut ensemble).unwrap();
    softened.restore(&mut ensemble).unwrap();
    assert_eq!(ensemble.memory().parameter(&name).unwrap(), logits);
    let gradient = ensemble.memory().gradient(&name).unwrap();
    let length = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
    assert!(length > 0.0);
    let mut loss = |step: f64| -> f64 {
        let along = |(p, g): (&f32, &f32)| (f64::from(*p) + step * f64::from(*g) / length) as f32;
        let moved: Vec<f32> = logits.iter().zip(&gradient).map(along).collect();
        ensemble.memory_mut().set_parameter(&name, &moved).unwrap();
        let softened = SoftmaxCoefficients::apply(&mut ensemble).unwrap();
        backward(&mut ensemble, 5);
        softened.restore(&mut ensemble).unwrap();
        (0..2).map(|m| f64::from(ensemble.metrics(OutputId(m)).unwrap().loss)).sum()
    };
    // The step is small beside the curvature and large beside the rounding of the loss.
    let h = 2e-2;
    let slope = (loss(h) - loss(-h)) / (2.0 * h);
    assert!((slope / length - 1.0).abs() < 0.03, "{slope} {length}");
}
