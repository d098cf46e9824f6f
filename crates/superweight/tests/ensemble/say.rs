//! Who has a say in a step: the largest that others learn from, heads of one network, members that have a turn.

use superweight::model::bank;
use superweight::engine::{CpuDevice, Sgd};
use superweight::model::ensemble::{Ensemble, EnsembleOptions, ParameterKind, by_size, member_parameters};
use superweight::model::lower::TEACHER;
use superweight::plan::{Clustering, LayerKind, MemberId, PlanRequest, SetId, SharingPlan};
use superweight::model::OutputId;

use super::{BATCH, IMAGE_LEN, SGD, batch, ensemble, is_the_slope, members, shared_plans, train};

/// Members that learn from the largest: the teacher's loss is that of labels, the others' the cross-entropy with what it says,
/// which is a constant to them.
#[test]
fn what_is_learned_from_the_largest_has_its_slope() {
    let upwards = PlanRequest::new(members("wrn-10-1,wrn-10-2"), 180_000).plan().unwrap();
    for plan in shared_plans().into_iter().chain([upwards]) {
        let options = EnsembleOptions { distillation: true, ..EnsembleOptions::train(BATCH) };
        let mut ensemble = Ensemble::new(&CpuDevice::new(2).unwrap(), &plan, &options).unwrap();
        let [teacher, student] = by_size(&plan)[..] else { unreachable!("two members") };
        let wide =
            plan.members.iter().position(|member| member.architecture.to_string() == "wrn-10-2");
        assert_eq!(teacher, MemberId(wide.unwrap_or(0)), "the larger; of two alike the first");
        let [teacher, student] = [teacher, student].map(|member| OutputId(member.0));
        bank::initialize(&plan, ensemble.memory_mut(), 3).unwrap();
        let (images, labels) = batch(5);
        ensemble.set_batch(&images, &labels).unwrap();
        ensemble.gradients().unwrap();
        let said = ensemble.memory().output(TEACHER).unwrap();
        assert!(
            said.chunks(10).all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-5),
            "{said:?}"
        );
        let measured = ensemble.metrics(student).unwrap();
        let against = |logits: &[f32], target: &[f32]| -> f64 {
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
        let loss = against(&logits, &classes);
        assert!((f64::from(measured.loss) - loss).abs() < 1e-4, "measured against the classes");
        let shared = if plan.tiling.has_banks() { "numbers.0" } else { "templates.0" };
        for name in [shared, "0.fc.bias", "1.fc.bias", "0.block1.layer.0.bn1.weight"] {
            let objective = |ensemble: &Ensemble<CpuDevice>| {
                let learned = against(&ensemble.logits(student).unwrap(), &said);
                f64::from(ensemble.metrics(teacher).unwrap().loss) + learned
            };
            is_the_slope(&mut ensemble, name, objective);
        }
    }
}

/// A network of two heads whose second sees nothing: its first is the plain network, on the first image of every row.
#[test]
fn one_of_several_heads_is_a_plain_network() {
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
            // Every pixel's channels, then as many of the other head; another classifier after the first.
            "0.conv1.weight" => values.chunks(3).flat_map(|of| [of, &[0.0; 3]].concat()).collect(),
            "0.fc.weight" | "0.fc.bias" => [&values[..], &vec![0.5; values.len()]].concat(),
            _ => values,
        };
        two.memory_mut().set_parameter(name, &wider).unwrap();
    }
    // Rows of an image and of another.
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
    // What is said of the network is the mean of the heads' probabilities.
    let said = two.logits(OutputId(0)).unwrap();
    let probabilities = |logits: &[f32]| {
        let sum: f32 = logits.iter().map(|z| z.exp()).sum();
        logits.iter().map(|z| z.exp() / sum).collect::<Vec<_>>()
    };
    for (said, heads) in said.chunks(10).zip(found.chunks(20)) {
        let [a, b] = [&heads[..10], &heads[10..]].map(probabilities);
        for (said, (a, b)) in said.iter().zip(a.iter().zip(&b)) {
            assert!((said.exp() - (a + b) / 2.0).abs() < 1e-5, "{said} {a} {b}");
        }
    }
}

/// The loss of several heads is the sum of theirs, each the mean over its images.
#[test]
fn several_heads_have_the_slope_of_the_sum_of_their_losses() {
    let request = PlanRequest::new(members("mimo-2-wrn-10-1,mimo-2-wrn-10-2"), 190_000);
    let plan = request.plan().unwrap();
    let options = EnsembleOptions { smoothing: 0.1, ..EnsembleOptions::train(BATCH / 2) };
    let mut ensemble = Ensemble::new(&CpuDevice::new(2).unwrap(), &plan, &options).unwrap();
    bank::initialize(&plan, ensemble.memory_mut(), 3).unwrap();
    let (images, labels) = batch(5);
    ensemble.set_batch(&images, &labels).unwrap();
    for name in ["templates.0", "0.fc.bias", "1.block1.layer.0.bn1.weight"] {
        let sum = |ensemble: &Ensemble<CpuDevice>| {
            [0, 1].map(|m| 2.0 * f64::from(ensemble.metrics(OutputId(m)).unwrap().loss)).iter().sum()
        };
        is_the_slope(&mut ensemble, name, sum);
    }
    assert_eq!(ensemble.metrics(OutputId(0)).unwrap().rows, BATCH as f32);
}

/// What a part of the members gives is what they add to what all give, the decay of a composed classifier among it; those who
/// are not trained have no gradient, whatever they had the step before.
#[test]
fn members_that_have_no_turn_have_no_say() {
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
        let mut of = |members: &[usize]| {
            let members: Vec<MemberId> = members.iter().copied().map(MemberId).collect();
            let part = (members.len() < 2).then(|| ensemble.subset(&members, &sgd).unwrap());
            ensemble.gradients_of_subset(part.as_ref()).unwrap();
            [&shared, "0.fc.bias", "1.fc.bias"]
                .map(|name| ensemble.memory().gradient(name).unwrap())
        };
        let all = of(&[0, 1]);
        let each = [of(&[0]), of(&[1])];
        let size = |values: &[f32]| values.iter().map(|v| v.abs()).fold(0.0, f32::max);
        for (place, all) in all.iter().enumerate() {
            let sum: Vec<f32> =
                each[0][place].iter().zip(&each[1][place]).map(|(a, b)| a + b).collect();
            let apart: Vec<f32> = sum.iter().zip(all).map(|(a, b)| a - b).collect();
            assert!(
                size(&apart) < 1e-5 * size(all),
                "{}: {} of {}",
                plan.tiling,
                size(&apart),
                size(all)
            );
        }
        assert!(
            size(&each[0][0]) > 0.0 && size(&each[1][0]) > 0.0,
            "both have a say in what they share"
        );
        assert_eq!([size(&each[1][1]), size(&each[0][2])], [0.0, 0.0], "what is another's alone");
    }
}

/// A step of one member moves its numbers, decay and momentum included, and no other: just as many as it has.
#[test]
fn a_step_of_a_part_moves_its_numbers_alone() {
    for plan in shared_plans() {
        let mut ensemble = ensemble(&plan, 2);
        train(&mut ensemble, 3);
        for member in [0, 1].map(MemberId) {
            let mut sgd = ensemble.optimizer(SGD, |_| 0.01).unwrap();
            sgd.set_lrs(&[0.01; ParameterKind::ALL.len()]).unwrap();
            // Momentum of everything, from a step of all.
            ensemble.gradients().unwrap();
            ensemble.update(&mut sgd);
            let part = ensemble.subset(&[member], &sgd).unwrap();
            let trained: Vec<_> = ParameterKind::ALL
                .iter()
                .flat_map(|&kind| ensemble.ranges(kind).unwrap())
                .collect();
            let layout = ensemble.memory().layout().clone();
            let names = layout
                .parameters()
                .filter(|(_, at)| trained.iter().any(|r| r.contains(&at.offset)));
            let names: Vec<String> = names.map(|(name, _)| name.to_owned()).collect();
            let numbers =
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
            let before = numbers(&ensemble, &sgd);
            ensemble.gradients_of_subset(Some(&part)).unwrap();
            ensemble.update_subset(&mut sgd, Some(&part));
            let after = numbers(&ensemble, &sgd);
            let moved: Vec<_> =
                before.iter().zip(&after).filter(|(before, after)| before != after).collect();
            assert!(
                moved.iter().all(|(before, after)| before.1 != after.1),
                "what moves has a momentum"
            );
            assert_eq!(moved.len() as u64, member_parameters(&plan, member), "{}", plan.tiling);
        }
    }
}
