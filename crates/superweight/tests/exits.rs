//! A network of several exits: run exit by exit, in any order, it gives the logits of the whole
//! network; its parameters learn from all exits at once, shared or not.

use superweight::engine::{CpuDevice, CudaDevice, Device, Precision};
use superweight::infer::Networks;
use superweight::infer::export::{OnnxOptions, onnx};
use superweight::model::bank;
use superweight::model::ensemble::{Ensemble, EnsembleOptions};
use superweight::model::{OutputId, Outputs};
use superweight::plan::arch::{ImageShape, Op};
use superweight::plan::{Member, MemberId, PlanRequest, SharingPlan, TilingChoice};
use superweight::rng::Draws;

const BATCH: usize = 4;
const EXITS: usize = 3;
const SHAPE: ImageShape = ImageShape { channels: 3, height: 24, width: 24 };

fn plan(tiling: TilingChoice, percent: u64) -> SharingPlan {
    let member = Member { architecture: "msdnet-3-4".parse().unwrap(), input: SHAPE, classes: 5 };
    let mut request = PlanRequest::new(vec![member], None);
    request.budget = Some(request.dense_total().unwrap() * percent / 100);
    request.tiling = tiling;
    request.plan().unwrap()
}

fn images(seed: u64) -> Vec<f32> {
    let draws = Draws::new(&[seed]);
    (0..(BATCH * SHAPE.channels * SHAPE.height * SHAPE.width) as u64)
        .map(|i| draws.signed_unit(i) as f32)
        .collect()
}

fn ensemble<D: Device>(device: &D, plan: &SharingPlan, options: EnsembleOptions) -> Ensemble<D> {
    let mut ensemble = Ensemble::new(device, plan, &options).unwrap();
    bank::initialize(plan, ensemble.memory_mut(), 7).unwrap();
    ensemble
}

fn networks<D: Device>(
    device: &D,
    plan: &SharingPlan,
    [folded, by_exit]: [bool; 2],
) -> Networks<D> {
    let options = EnsembleOptions { folded, by_exit, ..EnsembleOptions::infer(BATCH) };
    Networks::new(ensemble(device, plan, options), BATCH).unwrap()
}

/// Logits of all exits from one program.
fn whole<D: Device>(device: &D, plan: &SharingPlan, images: &[f32]) -> Vec<Vec<f32>> {
    let mut ensemble = ensemble(device, plan, EnsembleOptions::evaluate(BATCH));
    ensemble.compose().unwrap();
    ensemble.set_batch(images, &[0; BATCH]).unwrap();
    ensemble.evaluate().unwrap();
    (0..EXITS).map(|exit| ensemble.logits(OutputId(exit)).unwrap()).collect()
}

fn within(a: &[f32], b: &[f32], share: f32) -> bool {
    let norm = b.iter().map(|b| b * b).sum::<f32>().sqrt();
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt() < share * norm
}

fn close(a: &[f32], b: &[f32]) -> bool {
    within(a, b, 1e-4)
}

fn exit_by_exit_is_the_whole<D: Device>(device: &D, same_bits: bool) {
    for plan in [plan(TilingChoice::Nested, 100), plan(TilingChoice::Grid, 40)] {
        let (first, second) = (images(3), images(4));
        let expected = [&first, &second].map(|images| whole(device, &plan, images));
        assert!(expected[0].iter().zip(&expected[1]).all(|(a, b)| !close(a, b)), "images matter");
        assert!(!close(&expected[0][0], &expected[0][1]), "exits differ");
        for [folded, by_exit] in [[false, true], [true, true], [true, false]] {
            let mut networks = networks(device, &plan, [folded, by_exit]);
            assert_eq!((networks.outputs().count(), networks.outputs().nested()), (EXITS, true));
            // Exits in order; the last one first, on other images; and the first images again.
            for (images, expected, exits) in [
                (&first, &expected[0], [0, 1, 2]),
                (&second, &expected[1], [2, 0, 1]),
                (&first, &expected[0], [1, 2, 0]),
            ] {
                networks.set_images(images).unwrap();
                for exit in exits {
                    let logits = networks.run(OutputId(exit)).unwrap();
                    let same = if same_bits && !folded {
                        logits == expected[exit]
                    } else {
                        close(&logits, &expected[exit])
                    };
                    assert!(same, "exit {exit}, folded: {folded}, by exit: {by_exit}");
                }
            }
        }
    }
}

#[test]
fn on_a_processor() {
    exit_by_exit_is_the_whole(&CpuDevice::new(2).unwrap(), true);
}

#[test]
fn on_a_gpu() {
    match CudaDevice::new(0, Precision::F32) {
        Ok(device) => {
            exit_by_exit_is_the_whole(&device, false);
            let plan = plan(TilingChoice::Grid, 40);
            let ours = whole(&device, &plan, &images(3));
            let processor = whole(&CpuDevice::new(2).unwrap(), &plan, &images(3));
            assert!(
                ours.iter().zip(&processor).all(|(gpu, cpu)| close(gpu, cpu)),
                "as on a processor"
            );
        }
        Err(error) if std::env::var_os("SWN_REQUIRE_CUDA").is_some() => {
            panic!("no CUDA device: {error}")
        }
        Err(error) => println!("CUDA was skipped: {error}"),
    }
}

/// In bf16, the whole network and its exits one by one round differently.
#[test]
fn on_a_gpu_in_bf16() {
    match CudaDevice::new(0, Precision::Bf16) {
        Ok(device) => {
            let plan = plan(TilingChoice::Grid, 40);
            let images = images(3);
            let processor = whole(&CpuDevice::new(2).unwrap(), &plan, &images);
            for by_exit in [false, true] {
                let mut networks = networks(&device, &plan, [true, by_exit]);
                networks.set_images(&images).unwrap();
                for exit in (0..EXITS).rev() {
                    let logits = networks.run(OutputId(exit)).unwrap();
                    assert!(
                        within(&logits, &processor[exit], 0.05),
                        "exit {exit}, by exit: {by_exit}"
                    );
                }
            }
        }
        Err(error) if std::env::var_os("SWN_REQUIRE_CUDA").is_some() => {
            panic!("no CUDA device: {error}")
        }
        Err(error) => println!("CUDA was skipped: {error}"),
    }
}

/// An ONNX file has logits and probabilities for every exit.
#[test]
fn an_onnx_file_has_an_output_per_exit() {
    let plan = plan(TilingChoice::Grid, 40);
    let networks = networks(&CpuDevice::new(1).unwrap(), &plan, [true, false]);
    let architecture = plan.members[0].build().unwrap();
    let concats = architecture.nodes.iter().filter(|node| node.op == Op::Concat).count();
    let tensors = networks.state_dict(MemberId(0)).unwrap();
    let weights: usize = tensors.iter().map(|(_, tensor)| tensor.values().len()).sum();
    let file = onnx(&[(architecture.clone(), tensors)], &OnnxOptions::default()).unwrap();
    let times =
        |text: &str| file.windows(text.len()).filter(|bytes| *bytes == text.as_bytes()).count();
    assert_eq!(times("Concat"), concats, "`compare/export.py` compares what they compute");
    // Each is the name of a node, its output, and an output of the graph.
    for name in ["logits", "probabilities"] {
        assert_eq!([0, 1, 2].map(|exit| times(&format!("{name}.{exit}"))), [3; 3], "{name}");
    }
    assert!((4 * weights..4 * weights + 100_000).contains(&file.len()), "{}", file.len());
}

/// The losses with a tensor's parameters moved along a direction.
fn losses_at(
    ensemble: &mut Ensemble<CpuDevice>,
    name: &str,
    numbers: &[f32],
    direction: &[f64],
    step: f64,
) -> [f64; EXITS] {
    let moved = numbers.iter().zip(direction).map(|(n, d)| (f64::from(*n) + step * d) as f32);
    ensemble.memory_mut().set_parameter(name, &moved.collect::<Vec<_>>()).unwrap();
    ensemble.gradients().unwrap();
    [0, 1, 2].map(|exit| ensemble.metrics(OutputId(exit)).unwrap().loss.into())
}

/// Parameters that all exits read learn from the sum of their losses, those of one exit from its
/// own.
#[test]
fn parameters_learn_from_all_exits() {
    let plan = plan(TilingChoice::Grid, 40);
    let mut ensemble = ensemble(&CpuDevice::new(2).unwrap(), &plan, EnsembleOptions::train(BATCH));
    ensemble.set_batch(&images(3), &[4, 0, 2, 3]).unwrap();
    let (all, last) = ("0.blocks.0.0.layers.0.net.0.weight", "0.classifier.2.linear.bias");
    for (name, moves) in
        [(all, [true; EXITS]), ("templates.1", [true; EXITS]), (last, [false, false, true])]
    {
        let numbers = ensemble.memory().parameter(name).unwrap();
        let before = losses_at(&mut ensemble, name, &numbers, &vec![0.0; numbers.len()], 0.0);
        let gradient: Vec<f64> =
            ensemble.memory().gradient(name).unwrap().into_iter().map(f64::from).collect();
        let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        assert!(norm > 1e-3, "{name}: {norm}");
        let direction: Vec<f64> = gradient.iter().map(|g| g / norm).collect();
        // A batch norm over few images is steep, so the step is small.
        let step = 0.004 / norm;
        let [up, down] =
            [step, -step].map(|step| losses_at(&mut ensemble, name, &numbers, &direction, step));
        let slope = (up.iter().sum::<f64>() - down.iter().sum::<f64>()) / (2.0 * step);
        assert!((slope / norm - 1.0).abs() < 0.02, "{name}: {slope}, by the gradient {norm}");
        assert_eq!([0, 1, 2].map(|exit| up[exit] != before[exit]), moves, "{name}");
        losses_at(&mut ensemble, name, &numbers, &direction, 0.0);
    }
}

#[test]
fn exits_are_outputs_with_their_own_subsets() {
    let outputs = Outputs::of_plan(&plan(TilingChoice::Nested, 100));
    assert_eq!((outputs.word(), outputs.names()), ("exit", &vec!["msdnet-3-4".to_owned(); 3][..]));
    assert_eq!(outputs.of_member(MemberId(0)), 0..3);
    let subsets: Vec<_> = outputs.subsets().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(subsets, ["0", "1", "2", "0+1", "0+1+2"]);
    let needed: Vec<_> = outputs
        .subsets()
        .unwrap()
        .into_iter()
        .map(|subset| outputs.needed(subset).to_string())
        .collect();
    assert_eq!(needed, ["0", "0+1", "0+1+2", "0+1", "0+1+2"]);
    let members = Outputs::new(vec!["a".into(); 11], false);
    assert!(
        members
            .subsets()
            .unwrap_err()
            .to_string()
            .starts_with("11 members: their subsets are listed for at most 10")
    );
    assert!(Outputs::new(vec!["a".into(); 65], true).subsets().is_err());
}
