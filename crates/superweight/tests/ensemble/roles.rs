//! Roles of members in a step: teacher and students, heads of a MIMO network, subsets of members.

use superweight::engine::{CpuDevice, Sgd};
use superweight::model::OutputId;
use superweight::model::bank;
use superweight::model::ensemble::{
    Ensemble, EnsembleOptions, ParameterKind, by_size, member_parameters,
};
use superweight::model::lower::TEACHER;
use superweight::plan::{Clustering, LayerKind, MemberId, PlanRequest, SetId, SharingPlan};

use super::{BATCH, IMAGE_LEN, SGD, assert_slope, batch, ensemble, members, shared_plans, train};

/// Distillation: the teacher's loss is against labels, the student's is cross-entropy with the
/// teacher's probabilities, through which no gradient flows.
#[test]
fn distillation_has_the_gradient_of_its_losses() {
    let upwards = PlanRequest::new(members("wrn-10-1,wrn-10-2"), 180_000).plan().unwrap();
    for plan in shared_plans().into_iter().chain([upwards]) {
        let options = EnsembleOptions { distillation: true, ..EnsembleOptions::train(BATCH) };
        let mut ensemble = Ensemble::new(&CpuDevice::new(2).unwrap(), &plan, &options).unwrap();
        let [teacher, student] = by_size(&plan)[..] else { unreachable!("two members") };
        let wide =
            plan.members.iter().position(|member| member.architecture.to_string() == "wrn-10-2");
        assert_eq!(teacher, MemberId(wide.unwrap_or(0)), "the larger, or the first of equal ones");
        let [teacher, student] = [teacher, student].map(|member| OutputId(member.0));
        bank::initialize(&plan, ensemble.memory_mut(), 3).unwrap();
        let (images, labels) = batch(5);
        ensemble.set_batch(&images, &labels).unwrap();
        ensemble.gradients().unwrap();
        let taught = ensemble.memory().output(TEACHER).unwrap();
        assert!(
            taught.chunks(10).all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-5),
            "{taught:?}"
        );
        let measured = ensemble.metrics(student).unwrap();
        let cross_entropy = |logits: &[f32], target: &[f32]| -> f64 {
            let rows = logits.chunks(10).zip(target.chunks(10));
            let row = |(z, t): (&[f32], &[f32])| {
                let log_sum = z.iter().map(|z| f64::from(*z).exp()).sum::<f64>().ln();
                z.iter().zip(t).map(|(z, t)| f64::from(*t) * (log_sum - f64::from(*z))).sum::<f64>()
            };
            rows.map(row).sum::<f64>() / BATCH as f64
        };
        let mut classes = vec![0.0; 10 * BATCH];
        labels
            .iter()
            .enumerate()
            .for_each(|(row, &class)| classes[10 * row + class as usize] = 1.0);
        let logits = ensemble.logits(student).unwrap();
        let loss = cross_entropy(&logits, &classes);
        assert!((f64::from(measured.loss) - loss).abs() < 1e-4, "metrics are against labels");
        let shared = if plan.tiling.has_banks() { "numbers.0" } else { "templates.0" };
        for name in [shared, "0.fc.bias", "1.fc.bias", "0.block1.layer.0.bn1.weight"] {
            let objective = |ensemble: &Ensemble<CpuDevice>| {
                let learned = cross_entropy(&ensemble.logits(student).unwrap(), &taught);
                f64::from(ensemble.metrics(teacher).unwrap().loss) + learned
            };
            assert_slope(&mut ensemble, name, objective);
        }
    }
}

/// A MIMO network of two heads whose stem ignores the second image: its first head computes the
/// logits of the plain network for the first image of every row.
#[test]
fn a_mimo_head_computes_what_the_plain_network_computes() {
    let dense = |name: &str| {
        let request =
            PlanRequest { clusters: Clustering::Dense, ..PlanRequest::new(members(name), None) };
        request.plan().unwrap()
    };
    let evaluated = |plan: &SharingPlan| {
        let options = EnsembleOptions::evaluate(BATCH / 2);
        let mut ensemble = Ensemble::new(&CpuDevice::new(2).unwrap(), plan, &options).unwrap();
        bank::initialize(plan, ensemble.memory_mut(), 3).unwrap();
        ensemble
    };
    let (plain, two) = (dense("wrn-10-1"), dense("mimo-2-wrn-10-1"));
    let (mut plain, mut two) = (evaluated(&plain), evaluated(&two));
    let layout = plain.memory().layout().clone();
    for (name, _) in layout.parameters() {
        let values = plain.memory().parameter(name).unwrap();
        let wider = match name {
            // The stem has zero weights for the channels of the second image. The second head's
            // classifier follows the first's.
            "0.conv1.weight" => values.chunks(3).flat_map(|of| [of, &[0.0; 3]].concat()).collect(),
            "0.fc.weight" | "0.fc.bias" => [&values[..], &vec![0.5; values.len()]].concat(),
            _ => values,
        };
        two.memory_mut().set_parameter(name, &wider).unwrap();
    }
    // A row has two consecutive images. The plain network gets the first of each row.
    let (images, labels) = batch(5);
    let firsts: Vec<f32> = images.chunks(IMAGE_LEN).step_by(2).flatten().copied().collect();
    plain.set_batch(&firsts, &labels[..BATCH / 2]).unwrap();
    two.set_batch(&images, &labels).unwrap();
    plain.evaluate().unwrap();
    two.evaluate().unwrap();
    let expected = plain.logits(OutputId(0)).unwrap();
    let found = two.memory().output("0.logits").unwrap();
    for (row, expected) in expected.chunks(10).enumerate() {
        for (found, expected) in found[20 * row..].iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5 * (1.0 + expected.abs()), "{found} {expected}");
        }
    }
    // The network's prediction is the mean of the heads' probabilities.
    let combined = two.logits(OutputId(0)).unwrap();
    let probabilities = |logits: &[f32]| {
        let sum: f32 = logits.iter().map(|z| z.exp()).sum();
        logits.iter().map(|z| z.exp() / sum).collect::<Vec<_>>()
    };
    for (combined, heads) in combined.chunks(10).zip(found.chunks(20)) {
        let [a, b] = [&heads[..10], &heads[10..]].map(probabilities);
        for (combined, (a, b)) in combined.iter().zip(a.iter().zip(&b)) {
            assert!((combined.exp() - (a + b) / 2.0).abs() < 1e-5, "{combined} {a} {b}");
        }
    }
}

/// The loss of a MIMO network is the sum of its heads' losses, each the mean over the head's
/// images.
#[test]
fn mimo_has_the_gradient_of_the_sum_of_its_heads_losses() {
    let request = PlanRequest::new(members("mimo-2-wrn-10-1,mimo-2-wrn-10-2"), 190_000);
    let plan = request.plan().unwrap();
    let options = EnsembleOptions { smoothing: 0.1, ..EnsembleOptions::train(BATCH / 2) };
    let mut ensemble = Ensemble::new(&CpuDevice::new(2).unwrap(), &plan, &options).unwrap();
    bank::initialize(&plan, ensemble.memory_mut(), 3).unwrap();
    let (images, labels) = batch(5);
    ensemble.set_batch(&images, &labels).unwrap();
    for name in ["templates.0", "0.fc.bias", "1.block1.layer.0.bn1.weight"] {
        let sum = |ensemble: &Ensemble<CpuDevice>| {
            [0, 1]
                .map(|m| 2.0 * f64::from(ensemble.metrics(OutputId(m)).unwrap().loss))
                .iter()
                .sum()
        };
        assert_slope(&mut ensemble, name, sum);
    }
    assert_eq!(ensemble.metrics(OutputId(0)).unwrap().rows, BATCH as f32);
}

/// The gradients of disjoint subsets add up to the gradient of all members, including the weight
/// decay of a composed classifier. Parameters of members that are not trained have a zero gradient,
/// whatever it was in the step before.
#[test]
fn gradients_of_subsets_add_up_to_the_gradient_of_all() {
    for plan in shared_plans() {
        let options = EnsembleOptions { classifier_decay: 0.5, ..EnsembleOptions::train(BATCH) };
        let mut ensemble = Ensemble::new(&CpuDevice::new(2).unwrap(), &plan, &options).unwrap();
        bank::initialize(&plan, ensemble.memory_mut(), 3).unwrap();
        let sgd = ensemble.optimizer(SGD, |_| 0.0).unwrap();
        let (images, labels) = batch(5);
        ensemble.set_batch(&images, &labels).unwrap();
        let linear = |i: &usize| bank::kind_of(&plan, SetId(*i)) == LayerKind::Linear;
        let shared = match (0..plan.template_sets.len()).find(linear) {
            Some(set) => bank::templates_name(SetId(set)),
            None if plan.tiling.has_banks() => "numbers.0".to_owned(),
            None => "templates.0".to_owned(),
        };
        let mut gradients_of = |members: &[usize]| {
            let members: Vec<MemberId> = members.iter().copied().map(MemberId).collect();
            let subset = (members.len() < 2).then(|| ensemble.subset(&members, &sgd).unwrap());
            ensemble.gradients_of_subset(subset.as_ref()).unwrap();
            [&shared, "0.fc.bias", "1.fc.bias"]
                .map(|name| ensemble.memory().gradient(name).unwrap())
        };
        let all = gradients_of(&[0, 1]);
        let each = [gradients_of(&[0]), gradients_of(&[1])];
        let largest = |values: &[f32]| values.iter().map(|v| v.abs()).fold(0.0, f32::max);
        for (place, all) in all.iter().enumerate() {
            let sum: Vec<f32> =
                each[0][place].iter().zip(&each[1][place]).map(|(a, b)| a + b).collect();
            let difference: Vec<f32> = sum.iter().zip(all).map(|(a, b)| a - b).collect();
            assert!(
                largest(&difference) < 1e-5 * largest(all),
                "{}: {} of {}",
                plan.tiling,
                largest(&difference),
                largest(all)
            );
        }
        assert!(
            largest(&each[0][0]) > 0.0 && largest(&each[1][0]) > 0.0,
            "shared parameters have gradients through both members"
        );
        assert_eq!(
            [largest(&each[1][1]), largest(&each[0][2])],
            [0.0, 0.0],
            "parameters of members that are not trained have no gradient"
        );
    }
}

/// A step of one member changes exactly the parameters that the member uses, and their momentum,
/// also through weight decay and earlier momentum.
#[test]
fn a_step_of_a_subset_changes_only_its_parameters() {
    for plan in shared_plans() {
        let mut ensemble = ensemble(&plan, 2);
        train(&mut ensemble, 3);
        for member in [0, 1].map(MemberId) {
            let mut sgd = ensemble.optimizer(SGD, |_| 0.01).unwrap();
            sgd.set_lrs(&[0.01; ParameterKind::ALL.len()]).unwrap();
            // A step of all members, so that every parameter has a momentum.
            ensemble.gradients().unwrap();
            ensemble.update(&mut sgd);
            let subset = ensemble.subset(&[member], &sgd).unwrap();
            let trained: Vec<_> = ParameterKind::ALL
                .iter()
                .flat_map(|&kind| ensemble.ranges(kind).unwrap())
                .collect();
            let layout = ensemble.memory().layout().clone();
            let names = layout
                .parameters()
                .filter(|(_, at)| trained.iter().any(|r| r.contains(&at.offset)));
            let names: Vec<String> = names.map(|(name, _)| name.to_owned()).collect();
            let parameters =
                |ensemble: &Ensemble<CpuDevice>, sgd: &Sgd<CpuDevice>| -> Vec<(f32, f32)> {
                    let of = |name: &String| {
                        let momentum = sgd.momentum(layout.parameter(name).unwrap()).unwrap();
                        ensemble
                            .memory()
                            .parameter(name)
                            .unwrap()
                            .into_iter()
                            .zip(momentum)
                            .collect::<Vec<_>>()
                    };
                    names.iter().flat_map(of).collect()
                };
            let before = parameters(&ensemble, &sgd);
            ensemble.gradients_of_subset(Some(&subset)).unwrap();
            ensemble.update_subset(&mut sgd, Some(&subset));
            let after = parameters(&ensemble, &sgd);
            let changed: Vec<_> =
                before.iter().zip(&after).filter(|(before, after)| before != after).collect();
            assert!(
                changed.iter().all(|(before, after)| before.1 != after.1),
                "the momentum of changed parameters changes"
            );
            assert_eq!(changed.len() as u64, member_parameters(&plan, member), "{}", plan.tiling);
        }
    }
}
