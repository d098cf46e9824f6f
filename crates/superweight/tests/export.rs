//! Exported files are the networks that run here: a state dict in a plain graph gives the
//! ensemble's logits, for every tiling, and frozen members give the bits of unfrozen ones.
//! `compare/export.py` compares the files in PyTorch and ONNX Runtime (`results/export.md`).

use superweight::engine::{
    CpuDevice, LayoutBuilder, Memory, Program, Settings, SlotKind, oihw_to_ohwi,
};
use superweight::infer::Line;
use superweight::infer::Networks;
use superweight::infer::export::{OnnxOptions, onnx};
use superweight::model::OutputId;
use superweight::model::bank;
use superweight::model::ensemble::{Ensemble, EnsembleOptions};
use superweight::model::lower::{IMAGES, Lowering, lower};
use superweight::plan::arch::ImageShape;
use superweight::plan::{Member, MemberId, PlanRequest, SharingPlan, TilingChoice};
use superweight::rng::Draws;

const BATCH: usize = 3;
const SHAPE: ImageShape = ImageShape { channels: 3, height: 8, width: 8 };

fn plan(members: &[&str], tiling: TilingChoice, percent: u64) -> SharingPlan {
    let member =
        |name: &&str| Member { architecture: name.parse().unwrap(), input: SHAPE, classes: 5 };
    let mut request = PlanRequest::new(members.iter().map(member).collect(), None);
    request.budget = Some(request.dense_total().unwrap() * percent / 100);
    request.tiling = tiling;
    request.plan().unwrap()
}

fn networks(plan: &SharingPlan) -> (Networks<CpuDevice>, Vec<f32>, Vec<Vec<f32>>) {
    let device = CpuDevice::new(1).unwrap();
    let mut ensemble = Ensemble::new(&device, plan, &EnsembleOptions::evaluate(BATCH)).unwrap();
    bank::initialize(plan, ensemble.memory_mut(), 7).unwrap();
    let draws = Draws::new(&[3]);
    let images: Vec<f32> = (0..BATCH as u64 * 192).map(|i| draws.signed_unit(i) as f32).collect();
    ensemble.set_batch(&images, &[0; BATCH]).unwrap();
    ensemble.compose().unwrap();
    ensemble.evaluate().unwrap();
    let logits = (0..plan.members.len()).map(|m| ensemble.logits(OutputId(m)).unwrap()).collect();
    (Networks::new(ensemble, BATCH).unwrap(), images, logits)
}

/// A network of several heads runs on one image as if the image were repeated for every head.
#[test]
fn several_heads_run_on_one_image() {
    let plan = plan(&["mimo-3-wrn-10-1"], TilingChoice::Nested, 100);
    let device = CpuDevice::new(1).unwrap();
    let mut ensemble = Ensemble::new(&device, &plan, &EnsembleOptions::evaluate(BATCH)).unwrap();
    bank::initialize(&plan, ensemble.memory_mut(), 7).unwrap();
    let draws = Draws::new(&[3]);
    let images: Vec<f32> = (0..BATCH as u64 * 192).map(|i| draws.signed_unit(i) as f32).collect();
    let thrice: Vec<f32> = images.chunks(192).flat_map(|image| image.repeat(3)).collect();
    ensemble.set_batch(&thrice, &[0; 3 * BATCH]).unwrap();
    ensemble.compose().unwrap();
    ensemble.evaluate().unwrap();
    let expected = ensemble.logits(OutputId(0)).unwrap();
    let mut networks = Networks::new(ensemble, BATCH).unwrap();
    networks.set_images(&vec![0.0; images.len()]).unwrap();
    assert_ne!(networks.run(OutputId(0)).unwrap(), expected);
    networks.set_images(&images).unwrap();
    assert_eq!(networks.run(OutputId(0)).unwrap(), expected);
    assert_eq!(expected.len(), 5 * BATCH);
}

#[test]
fn a_state_dict_gives_the_logits_of_its_member() {
    let plans = [
        plan(&["wrn-10-1", "mobilenet-v2-0.35"], TilingChoice::Nested, 80),
        plan(&["wrn-10-1", "wrn-10-2"], TilingChoice::Grid, 40),
        plan(&["wrn-10-1", "wrn-10-2"], TilingChoice::Kronecker, 40),
        plan(&["wrn-10-1", "wrn-10-2"], TilingChoice::Stretched, 40),
        plan(&["wrn-10-1", "wrn-10-1"], TilingChoice::RankOne, 80),
        plan(&["cnn-8-16"], TilingChoice::Auto, 100),
    ];
    for plan in &plans {
        let (mut networks, images, expected) = networks(plan);
        networks.set_images(&images).unwrap();
        for (member, expected) in expected.iter().enumerate() {
            assert_eq!(
                &networks.run(OutputId(member)).unwrap(),
                expected,
                "frozen weights give the same bits"
            );
            let architecture = plan.members[member].build().unwrap();
            let tensors = networks.state_dict(MemberId(member)).unwrap();
            let device = CpuDevice::new(1).unwrap();
            let (graph, settings) =
                (lower(&architecture, &Lowering::default()).unwrap(), Settings::evaluate(BATCH));
            let mut layout = LayoutBuilder::new();
            layout.graph(&graph, &settings).unwrap();
            let layout = layout.finish(&device);
            let program = Program::compile(&device, &graph, &settings, &layout).unwrap();
            let mut memory = Memory::new(&device, layout, program.plan().arena_bytes).unwrap();
            for slot in graph.slots() {
                let shape = tensors.get(&slot.name).unwrap().shape().to_vec();
                let values = tensors.expect::<f32>(&slot.name, &shape).unwrap();
                match (slot.kind, &shape[..]) {
                    (SlotKind::Statistic, _) => memory.set_statistic(&slot.name, values).unwrap(),
                    (_, &[o, i, h, w]) => memory
                        .set_parameter(&slot.name, &oihw_to_ohwi(values, [o, i, h, w]))
                        .unwrap(),
                    _ => memory.set_parameter(&slot.name, values).unwrap(),
                }
            }
            memory.set_input(IMAGES, &images).unwrap();
            memory.run(&program).unwrap();
            assert_eq!(&memory.output("logits").unwrap(), expected, "{}", architecture.name);
        }
    }
}

/// With folded batch norms, logits are equal up to rounding, and the state dict is equal in every
/// bit.
#[test]
fn folded_members_have_the_same_logits_and_state_dict() {
    let device = CpuDevice::new(1).unwrap();
    for plan in [
        plan(&["wrn-10-1", "mobilenet-v2-0.35"], TilingChoice::Nested, 80),
        plan(&["wrn-10-1", "wrn-10-2"], TilingChoice::Grid, 40),
        plan(&["wrn-10-1", "wrn-10-2"], TilingChoice::Kronecker, 40),
        plan(&["wrn-10-1", "wrn-10-2"], TilingChoice::Stretched, 40),
        plan(&["wrn-10-1", "wrn-10-1"], TilingChoice::RankOne, 80),
        plan(&["cnn-8-16"], TilingChoice::Auto, 100),
    ] {
        let make = |options: &EnsembleOptions| {
            let mut ensemble = Ensemble::new(&device, &plan, options).unwrap();
            bank::initialize(&plan, ensemble.memory_mut(), 7).unwrap();
            // Statistics, scales and shifts as after training: none of them is 0 or 1.
            let memory = ensemble.memory_mut();
            let statistics: Vec<_> =
                memory.layout().statistics().map(|(n, r)| (n.to_owned(), r.len)).collect();
            for (index, (name, len)) in statistics.iter().enumerate() {
                let draws = Draws::new(&[11, index as u64]);
                let variance = name.ends_with("running_var");
                let value =
                    |i| draws.signed_unit(i) as f32 * 0.5 + if variance { 1.0 } else { 0.0 };
                memory
                    .set_statistic(name, &(0..*len as u64).map(value).collect::<Vec<_>>())
                    .unwrap();
            }
            for (index, vector) in plan.vectors.iter().enumerate() {
                let draws = Draws::new(&[13, index as u64]);
                let scale = vector.kind == superweight::plan::VectorKind::NormScale;
                let value = |i| draws.signed_unit(i) as f32 * 0.3 + if scale { 1.0 } else { 0.0 };
                let name = bank::scope(vector.member) + &vector.name;
                memory
                    .set_parameter(&name, &(0..vector.len).map(value).collect::<Vec<_>>())
                    .unwrap();
            }
            Networks::new(ensemble, BATCH).unwrap()
        };
        let [mut plain, mut folded] =
            [EnsembleOptions::evaluate(BATCH), EnsembleOptions::infer(BATCH)]
                .map(|options| make(&options));
        let draws = Draws::new(&[3]);
        let images: Vec<f32> =
            (0..BATCH as u64 * 192).map(|i| draws.signed_unit(i) as f32).collect();
        for member in (0..plan.members.len()).map(MemberId) {
            let [plain, folded] = [&mut plain, &mut folded].map(|networks| {
                networks.set_images(&images).unwrap();
                (networks.run(OutputId(member.0)).unwrap(), networks.state_dict(member).unwrap())
            });
            assert_eq!(plain.1, folded.1);
            let square = |values: &mut dyn Iterator<Item = f32>| {
                values.map(|v| f64::from(v * v)).sum::<f64>()
            };
            let off = square(&mut plain.0.iter().zip(&folded.0).map(|(a, b)| a - b));
            let error = (off / square(&mut plain.0.iter().copied())).sqrt();
            assert!(error < 1e-5, "member {member:?}: {error:.2e}");
            assert_ne!(plain.0, folded.0, "folding changes the order of sums");
        }
    }
}

/// Names of the graph's outputs, read from the file: field 7 of the model is the graph, field 12 of
/// the graph an output, field 1 of an output its name.
fn outputs_of(file: &[u8]) -> Vec<String> {
    fn varint(bytes: &mut &[u8]) -> usize {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= usize::from(byte & 127) << shift;
            if byte < 128 {
                break;
            }
        }
        value
    }
    fn fields(mut bytes: &[u8], number: usize) -> Vec<&[u8]> {
        let mut found = vec![];
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let len = match key & 7 {
                0 => {
                    varint(&mut bytes);
                    continue;
                }
                2 => varint(&mut bytes),
                5 => 4,
                other => unreachable!("wire type {other}"),
            };
            let (field, rest) = bytes.split_at(len);
            found.extend((key >> 3 == number).then_some(field));
            bytes = rest;
        }
        found
    }
    let outputs = fields(fields(file, 7)[0], 12);
    outputs.iter().map(|it| String::from_utf8(fields(it, 1)[0].to_vec()).unwrap()).collect()
}

/// The size of an ONNX file is that of its weights and little more; `logits` and `probabilities`
/// are the outputs of one member and of an ensemble.
#[test]
fn an_onnx_file_has_every_weight_once_and_two_outputs() {
    let plan = plan(&["wrn-10-1", "wrn-10-2"], TilingChoice::Grid, 40);
    let (networks, ..) = networks(&plan);
    let part =
        |m: usize| (plan.members[m].build().unwrap(), networks.state_dict(MemberId(m)).unwrap());
    let options = OnnxOptions::default();
    let file = onnx(&[part(0), part(1)], &options).unwrap();
    assert_eq!(outputs_of(&file), ["logits", "probabilities"], "an ensemble");
    assert_eq!(outputs_of(&onnx(&[part(0)], &options).unwrap()), ["logits", "probabilities"]);
    let weights: usize =
        [part(0), part(1)].iter().flat_map(|(_, t)| t.iter().map(|(_, t)| t.values().len())).sum();
    assert!(
        (4 * weights..4 * weights + 20_000).contains(&file.len()),
        "{} for {weights}",
        file.len()
    );
    let missing = onnx(&[(part(0).0, part(1).1)], &options);
    assert!(
        missing.unwrap_err().to_string().contains("expected F32"),
        "a state dict of another network"
    );
}

/// With several heads, the graph takes one image and returns one row of logits.
#[test]
fn an_onnx_file_has_all_heads() {
    let plan = plan(&["mimo-3-wrn-10-1"], TilingChoice::Nested, 100);
    let mut ensemble =
        Ensemble::new(&CpuDevice::new(1).unwrap(), &plan, &EnsembleOptions::evaluate(BATCH))
            .unwrap();
    bank::initialize(&plan, ensemble.memory_mut(), 7).unwrap();
    let tensors = Networks::new(ensemble, BATCH).unwrap().state_dict(MemberId(0)).unwrap();
    let options = OnnxOptions::default();
    let file = onnx(&[(plan.members[0].build().unwrap(), tensors)], &options).unwrap();
    let times =
        |text: &str| file.windows(text.len()).filter(|bytes| *bytes == text.as_bytes()).count();
    // The nodes of the heads; `compare/export.py` compares what they compute.
    for op in ["Concat", "Reshape", "LogSoftmax", "ReduceLogSumExp", "Sub"] {
        assert_eq!(times(op), 1, "{op}");
    }
    assert_eq!(
        times("heads.mean"),
        4,
        "the name and output of a node, and the input of logits and of probabilities"
    );
}

/// The probabilities of an ensemble are the mean over its members, for fewer images than a batch
/// too.
#[test]
fn an_ensemble_predicts_the_mean_of_probabilities() {
    let plan = plan(&["cnn-8-16", "cnn-8-16"], TilingChoice::Auto, 100);
    let (mut networks, images, logits) = networks(&plan);
    let softmax = |logits: &[f32]| {
        let mut p = vec![0.0; 5];
        superweight::probability::softmax(logits, &mut p);
        p
    };
    let expected: Vec<f64> = (0..BATCH)
        .flat_map(|image| {
            let [a, b] = [0, 1].map(|m: usize| softmax(&logits[m][image * 5..][..5]));
            a.into_iter().zip(b).map(|(a, b)| (a + b) / 2.0).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(networks.probabilities(&images).unwrap(), expected);
    assert_eq!(networks.probabilities(&images[..192]).unwrap(), expected[..5]);
}

/// The ends of a line have the members' figures with batch statistics; a line from a member to
/// itself is flat.
#[test]
fn a_line_between_members_has_their_figures_at_its_ends() {
    let plan = plan(&["cnn-8-16", "cnn-8-16"], TilingChoice::Auto, 100);
    let (networks, ..) = networks(&plan);
    let architecture = plan.members[0].build().unwrap();
    let [a, b] = [0, 1].map(|m| networks.state_dict(MemberId(m)).unwrap());
    let device = CpuDevice::new(1).unwrap();
    let pixels: Vec<u8> = (0..10 * 192u64).map(|i| Draws::new(&[5]).bits(i) as u8).collect();
    let images = superweight::data::Images {
        pixels: pixels.into(),
        labels: (0..10).map(|i| i % 5).collect(),
    };
    let normalization = superweight::data::Normalization::fixed(&[128.0; 3], &[64.0; 3]);
    let evaluate = |from, to, points| {
        let line = Line { architecture: &architecture, from, to };
        line.evaluate(&device, &images, &normalization, 4, points).unwrap()
    };
    let (there, back, still) = (evaluate(&a, &b, 3), evaluate(&b, &a, 3), evaluate(&a, &a, 3));
    assert_eq!(there[0].figures, still[1].figures);
    assert_eq!((there[0].figures, there[2].figures), (back[2].figures, back[0].figures));
    assert_ne!(there[0].figures.nll, there[2].figures.nll, "members differ");
    assert_eq!(there.iter().map(|point| point.t).collect::<Vec<_>>(), [0.0, 0.5, 1.0]);
}
