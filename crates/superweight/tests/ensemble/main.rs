//! Training steps of whole plans.

mod roles;

use superweight::engine::{CpuDevice, LayoutBuilder, Memory, Program, Settings, Sgd, SgdOptions};
use superweight::engine::{ParameterGroup, Region};
use superweight::model::OutputId;
use superweight::model::bank;
use superweight::model::ensemble::{Ensemble, EnsembleOptions, ParameterKind, member_parameters};
use superweight::model::lower::{IMAGES, LABELS, Lowering, lower};
use superweight::plan::arch::{ArchName, ImageShape};
use superweight::plan::{
    Clustering, Coefficients, LayerId, Member, MemberId, PlanRequest, SetId, SharingPlan, Tile,
    Tiling, TilingChoice, VectorKind,
};
use superweight::rng::Draws;

const IMAGE: ImageShape = ImageShape { channels: 3, height: 8, width: 8 };
const IMAGE_LEN: usize = 3 * 8 * 8;
const BATCH: usize = 6;
const SGD: SgdOptions = SgdOptions { momentum: 0.9, nesterov: true };

fn members(names: &str) -> Vec<Member> {
    let member = |name: &str| Member {
        architecture: name.parse::<ArchName>().unwrap(),
        input: IMAGE,
        classes: 10,
    };
    names.split(',').map(member).collect()
}

fn batch(seed: u64) -> (Vec<f32>, Vec<u32>) {
    let draws = Draws::new(&[seed]);
    let images = (0..(BATCH * 8 * 8 * 3) as u64).map(|n| draws.normal(n) as f32).collect();
    (images, (0..BATCH as u64).map(|n| (draws.bits(1_000_000 + n) % 10) as u32).collect())
}

fn ensemble(plan: &SharingPlan, threads: usize) -> Ensemble<CpuDevice> {
    let device = CpuDevice::new(threads).unwrap();
    let options = EnsembleOptions::train(BATCH);
    let mut ensemble = Ensemble::new(&device, plan, &options).unwrap();
    bank::initialize(plan, ensemble.memory_mut(), 3).unwrap();
    ensemble
}

/// Trains for some steps on two batches in turn; returns the sum of the members' losses of each
/// step.
fn train(ensemble: &mut Ensemble<CpuDevice>, steps: u64) -> Vec<f32> {
    let mut sgd = ensemble
        .optimizer(SGD, |kind| if kind == ParameterKind::Coefficients { 0.0 } else { 5e-4 })
        .unwrap();
    sgd.set_lrs(&[0.05; ParameterKind::ALL.len()]).unwrap();
    let members = ensemble.members();
    let mut losses = vec![];
    for step in 0..steps {
        let (images, labels) = batch(step % 2);
        ensemble.set_batch(&images, &labels).unwrap();
        ensemble.gradients().unwrap();
        ensemble.update(&mut sgd);
        losses.push((0..members).map(|m| ensemble.metrics(OutputId(m)).unwrap().loss).sum());
    }
    losses
}

/// The plain network is trained directly with the engine: without plan and bank, and with one
/// optimizer group.
#[test]
fn a_dense_plan_trains_bit_for_bit_like_the_plain_network() {
    let request =
        PlanRequest { clusters: Clustering::Dense, ..PlanRequest::new(members("wrn-10-1"), None) };
    let plan = request.plan().unwrap();
    let mut ensemble = ensemble(&plan, 2);
    let weights = |memory: &Memory<CpuDevice>, name: &str| memory.parameter(name).unwrap();

    let device = CpuDevice::new(2).unwrap();
    let graph = lower(&plan.members[0].build().unwrap(), &Lowering::default()).unwrap();
    let mut builder = LayoutBuilder::new();
    let layout = builder.graph(&graph, &Settings::train(BATCH)).unwrap().finish(&device);
    let program = Program::compile(&device, &graph, &Settings::train(BATCH), &layout).unwrap();
    let mut memory = Memory::new(&device, layout.clone(), program.plan().arena_bytes).unwrap();
    let names: Vec<String> = layout.parameters().map(|(name, _)| name.to_owned()).collect();
    for name in &names {
        memory.set_parameter(name, &weights(ensemble.memory(), &format!("0.{name}"))).unwrap();
    }
    for (name, Region { len, .. }) in layout.statistics() {
        let one = name.ends_with("running_var");
        memory.set_statistic(name, &vec![if one { 1.0 } else { 0.0 }; len]).unwrap();
    }
    let everything = ParameterGroup {
        ranges: std::iter::once(0..layout.parameter_len).collect(),
        weight_decay: 5e-4,
    };
    let mut sgd = Sgd::new(&memory, SGD, vec![everything]).unwrap();

    train(&mut ensemble, 5);
    for step in 0..5 {
        let (images, labels) = batch(step % 2);
        memory.set_input(IMAGES, &images).unwrap();
        memory.set_classes(LABELS, &labels).unwrap();
        memory.run(&program).unwrap();
        sgd.set_lrs(&[0.05]).unwrap();
        sgd.step(&mut memory);
    }
    for name in &names {
        let (ours, plain) =
            (weights(ensemble.memory(), &format!("0.{name}")), weights(&memory, name));
        assert_eq!(ours, plain, "{name}");
    }
}

/// Plans of all tilings with parameters shared between two members.
fn shared_plans() -> Vec<SharingPlan> {
    let mut plans = vec![];
    use TilingChoice::{Grid, Kronecker, Nested, Stretched};
    for tiling in [Nested, Grid, Kronecker, Stretched] {
        for coefficients in [Coefficients::Shared, Coefficients::PerLayer] {
            let request = PlanRequest::new(members("wrn-10-2,wrn-10-1"), 180_000);
            plans.push(
                PlanRequest { tiling, coefficients, block: Some(8), ..request }.plan().unwrap(),
            );
        }
    }
    let request = PlanRequest::new(members("wrn-10-1,wrn-10-1"), 180_000);
    let clusters = Clustering::PerPosition;
    plans.push(PlanRequest { tiling: TilingChoice::RankOne, clusters, ..request }.plan().unwrap());
    plans
}

#[test]
fn shared_plans_learn_and_the_optimizer_trains_exactly_the_bill() {
    for plan in shared_plans() {
        let mut ensemble = ensemble(&plan, 2);
        let all = ParameterKind::ALL.iter().flat_map(|&kind| ensemble.ranges(kind).unwrap());
        let owned: usize = all.map(|range| range.len()).sum();
        // Tensors of coefficients have space for rows that refinement may add.
        let mixed = plan.template_sets.iter().enumerate().filter(|(_, set)| set.templates > 1);
        let capacity = |i| {
            ensemble.memory().layout().parameter(&bank::coefficients_name(SetId(i))).unwrap().len
        };
        let owned = owned - mixed.map(|(i, _)| capacity(i)).sum::<usize>();
        let factors: u64 =
            (0..plan.template_sets.len()).map(|i| plan.factor_parameters(SetId(i))).sum();
        assert_eq!(owned as u64, plan.bill.trained() + factors - plan.bill.coefficients);
        let losses = train(&mut ensemble, 30);
        let (first, last) = (losses[0] + losses[1], losses[28] + losses[29]);
        assert!(last < 0.3 * first, "{}: {first} to {last}", plan.tiling);
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    for plan in shared_plans() {
        let bits = |threads| -> Vec<u32> {
            let losses = train(&mut ensemble(&plan, threads), 4);
            losses.iter().map(|loss| loss.to_bits()).collect()
        };
        assert_eq!(bits(1), bits(2));
        assert_eq!(bits(1), bits(7));
    }
}

/// Asserts that a tensor's gradient is that of an objective: by finite differences the slope along
/// the gradient equals its norm.
#[track_caller]
fn assert_slope(
    ensemble: &mut Ensemble<CpuDevice>,
    name: &str,
    objective: impl Fn(&Ensemble<CpuDevice>) -> f64,
) {
    ensemble.gradients().unwrap();
    let gradient = ensemble.memory().gradient(name).unwrap();
    let before = ensemble.memory().parameter(name).unwrap();
    let length = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
    let mut at = |step: f64| {
        let along = |(p, g): (&f32, &f32)| (f64::from(*p) + step * f64::from(*g) / length) as f32;
        let moved: Vec<f32> = before.iter().zip(&gradient).map(along).collect();
        ensemble.memory_mut().set_parameter(name, &moved).unwrap();
        ensemble.gradients().unwrap();
        objective(ensemble)
    };
    // The step is small compared with the curvature.
    let h = 5e-3;
    let slope = (at(h) - at(-h)) / (2.0 * h);
    at(0.0);
    assert!(
        (slope / length - 1.0).abs() < 0.03,
        "{} {name}: {slope} {length}",
        ensemble.plan().tiling
    );
}

/// Gradients of banks, templates and coefficients, through the members and the composition, against
/// finite differences of the loss.
#[test]
fn shared_parameters_have_the_gradient_of_the_loss() {
    for plan in shared_plans() {
        let mut ensemble = ensemble(&plan, 2);
        let (images, labels) = batch(5);
        ensemble.set_batch(&images, &labels).unwrap();
        ensemble.gradients().unwrap();
        let names = match plan.tiling {
            Tiling::Stretched => ["numbers.0", "coefficients.0"],
            Tiling::RankOne => ["numbers.0", "factors.0"],
            _ => ["templates.0", "coefficients.0"],
        };
        for name in names {
            if ensemble.memory().gradient(name).is_ok() {
                let both = |ensemble: &Ensemble<CpuDevice>| {
                    (0..2).map(|m| f64::from(ensemble.metrics(OutputId(m)).unwrap().loss)).sum()
                };
                assert_slope(&mut ensemble, name, both);
            }
        }
    }
}

/// The first batch norm, whose input depends on no other batch norm: its running statistics after a
/// batch of two ghosts are the mean of those after each ghost by itself.
#[test]
fn running_statistics_are_the_mean_over_ghost_batches() {
    let request =
        PlanRequest { clusters: Clustering::Dense, ..PlanRequest::new(members("wrn-10-1"), None) };
    let plan = request.plan().unwrap();
    let (images, labels) = batch(1);
    let after_a_step = |options: EnsembleOptions, from: usize| {
        let mut ensemble = Ensemble::new(&CpuDevice::new(2).unwrap(), &plan, &options).unwrap();
        bank::initialize(&plan, ensemble.memory_mut(), 3).unwrap();
        let pixels = images.len() / BATCH;
        let chosen = from..from + options.batch;
        let chosen_images = &images[chosen.start * pixels..chosen.end * pixels];
        ensemble.set_batch(chosen_images, &labels[chosen]).unwrap();
        ensemble.gradients().unwrap();
        ensemble
    };
    let ghosts = after_a_step(
        EnsembleOptions { bn_batch_size: BATCH / 2, ..EnsembleOptions::train(BATCH) },
        0,
    );
    let halves = [0, BATCH / 2].map(|from| after_a_step(EnsembleOptions::train(BATCH / 2), from));
    let whole = after_a_step(EnsembleOptions::train(BATCH), 0);
    for what in ["running_mean", "running_var"] {
        let read = |ensemble: &Ensemble<CpuDevice>| {
            let name = format!("0.block1.layer.0.bn1.{what}");
            ensemble.memory().statistic(&name).unwrap()
        };
        let (ghosts, whole, [a, b]) = (read(&ghosts), read(&whole), halves.each_ref().map(read));
        let mean: Vec<f32> = a.iter().zip(&b).map(|(a, b)| (a + b) / 2.0).collect();
        let close = |x: &[f32], y: &[f32]| x.iter().zip(y).all(|(x, y)| (x - y).abs() < 1e-6);
        assert!(close(&ghosts, &mean), "{what}: {ghosts:?} {mean:?}");
        assert!(
            what == "running_mean" || !close(&ghosts, &whole),
            "variances within ghosts differ from those of the whole batch"
        );
    }
}

/// Ghost batches do not affect evaluation, and one ghost of the whole batch changes nothing.
#[test]
fn ghost_batches_affect_only_training() {
    let plan = &shared_plans()[0];
    let run = |bn_batch_size: usize| {
        let options = EnsembleOptions { bn_batch_size, ..EnsembleOptions::train(BATCH) };
        let mut ensemble = Ensemble::new(&CpuDevice::new(2).unwrap(), plan, &options).unwrap();
        bank::initialize(plan, ensemble.memory_mut(), 3).unwrap();
        let (images, labels) = batch(1);
        ensemble.set_batch(&images, &labels).unwrap();
        ensemble.compose().unwrap();
        ensemble.evaluate().unwrap();
        (ensemble.logits(OutputId(0)).unwrap(), train(&mut ensemble, 3))
    };
    let (whole, ghosts) = (run(BATCH), run(2));
    assert_eq!(whole.0, ghosts.0);
    assert_ne!(whole.1, ghosts.1);
    let plain = train(&mut ensemble(plan, 2), 3);
    assert_eq!(whole.1, plain);
}

/// Training and evaluation programs share memory; an evaluation between two training steps changes
/// no loss.
#[test]
fn evaluation_between_steps_does_not_change_training() {
    for plan in shared_plans() {
        let straight = train(&mut ensemble(&plan, 2), 4);
        let mut interrupted = ensemble(&plan, 2);
        let mut sgd = interrupted
            .optimizer(SGD, |kind| if kind == ParameterKind::Coefficients { 0.0 } else { 5e-4 });
        let sgd = sgd.as_mut().unwrap();
        sgd.set_lrs(&[0.05; ParameterKind::ALL.len()]).unwrap();
        let mut losses = vec![];
        for step in 0..4 {
            let (images, labels) = batch(9);
            interrupted.set_batch(&images, &labels).unwrap();
            interrupted.compose().unwrap();
            interrupted.evaluate().unwrap();
            let (images, labels) = batch(step % 2);
            interrupted.set_batch(&images, &labels).unwrap();
            interrupted.gradients().unwrap();
            interrupted.update(sgd);
            losses
                .push((0..2).map(|m| interrupted.metrics(OutputId(m)).unwrap().loss).sum::<f32>());
        }
        assert_eq!(straight, losses);
    }
}

#[test]
fn channels_with_a_small_scale_are_zero_channels() {
    let request = PlanRequest::new(members("wrn-10-1,wrn-10-2"), None);
    let mut ensemble = ensemble(&request.plan().unwrap(), 1);
    let zero_channels = |ensemble: &Ensemble<CpuDevice>| {
        [0, 1].map(|m| ensemble.zero_channels(MemberId(m)).unwrap())
    };
    assert_eq!(zero_channels(&ensemble), [0.0, 0.0], "scales start at 1");
    let scales = ensemble.plan().vectors.iter();
    let scales = scales.filter(|v| v.kind == VectorKind::NormScale && v.member == MemberId(1));
    let (channels, last) = scales.fold((0, 0), |(sum, _), scale| (sum + scale.len, scale.len));
    let mut scale = vec![1.0; last as usize];
    scale[..8].fill(-0.009);
    ensemble.memory_mut().set_parameter("1.bn1.weight", &scale).unwrap();
    assert_eq!(zero_channels(&ensemble), [0.0, 8.0 / channels as f64]);
}

#[test]
fn layers_with_tiny_weights_are_near_zero() {
    let request = PlanRequest::new(members("wrn-10-1,wrn-10-2"), None);
    let mut ensemble = ensemble(&request.plan().unwrap(), 1);
    ensemble.compose().unwrap();
    assert_eq!(ensemble.near_zero_layers().unwrap(), []);
    // Layers that are composed of the first set only.
    let plan = ensemble.plan();
    let layers =
        (0..plan.layers.len()).map(LayerId).filter(|id| !plan.layers[id.0].tiles.is_empty());
    let is_first = |tile: &Tile| plan.superweight(tile.superweight).set == SetId(0);
    let expected: Vec<_> =
        layers.filter(|id| plan.layers[id.0].tiles.iter().all(is_first)).collect();
    assert!(!expected.is_empty() && expected.len() < plan.layers.len());
    let templates = ensemble.memory().parameter("templates.0").unwrap();
    let tiny: Vec<f32> = templates.iter().map(|t| 1e-4 * t).collect();
    ensemble.memory_mut().set_parameter("templates.0", &tiny).unwrap();
    assert_eq!(ensemble.near_zero_layers().unwrap(), [], "weights are not composed again yet");
    ensemble.compose().unwrap();
    assert_eq!(ensemble.near_zero_layers().unwrap(), expected);
}

/// A member uses the whole matrix that it shares with rank-one tiling, and the parameters of a bank
/// that it reads with stretched tiling.
#[test]
fn member_parameters_count_what_a_member_reads() {
    let plans = shared_plans();
    let rank_one = plans.last().unwrap();
    let own = |plan: &SharingPlan, m| member_parameters(plan, MemberId(m));
    let factors: u64 =
        (0..rank_one.template_sets.len()).map(|i| rank_one.factor_parameters(SetId(i))).sum();
    let unshared = rank_one.bill.trained() - rank_one.bill.templates;
    assert_eq!(own(rank_one, 0), rank_one.bill.templates + unshared / 2);
    assert_eq!(rank_one.bill.coefficients, factors);

    let tiling = TilingChoice::Stretched;
    let request = PlanRequest { tiling, ..PlanRequest::new(members("wrn-10-1,cnn-4-8"), 30_000) };
    let plan = request.plan().unwrap();
    let plain: u64 = PlanRequest::new(members("cnn-4-8"), None).dense_total().unwrap();
    assert!(own(&plan, 0) > 29_000 && own(&plan, 0) <= 30_000, "{}", own(&plan, 0));
    // At most eight templates for each of its layers.
    assert!(own(&plan, 1) < 8 * plain + 100, "{} {plain}", own(&plan, 1));
}
