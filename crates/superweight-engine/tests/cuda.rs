//! The GPU against the CPU: every operation and small networks, fed the same numbers.
//!
//! In f32 both add the same products in another order: L2-relative distance below 1e-5. In bf16 inputs and weights are
//! rounded before either sees them, so that what is left is the rounding of results: below 1e-2. The CPU convolves without
//! Winograd, whose transforms lose two digits.

mod common;

use common::{Bench, fill, hashed, name_seed, relative_error, with_cuda};
use superweight_engine::cpu::conv::Algorithm;
use superweight_engine::{
    Activation, BatchNorm, Block, Call, Control, Conv2d, CpuDevice, CrossEntropy, CudaDevice, CudaError,
    Device, Error, Graph, GraphBuilder, LayoutBuilder, Memory, Mix, MixGradients, MixSet, MixUse, NodeId,
    NormMode, ParameterGroup, Pool2d, Precision, Program, Scope, Settings, Sgd, SgdOptions, Shape, SlotKind,
};

const PRECISIONS: [(Precision, f64); 2] = [(Precision::F32, 1e-5), (Precision::Bf16, 1e-2)];

/// To the nearest number of bf16.
fn rounded(values: &[f32]) -> Vec<f32> {
    let round = |v: &f32| f32::from_bits((v.to_bits() + 0x7fff + ((v.to_bits() >> 16) & 1)) & 0xffff_0000);
    values.iter().map(round).collect()
}

fn cpu() -> CpuDevice {
    CpuDevice::new(2).unwrap().with_convolutions(Algorithm::Direct)
}

/// A graph with what it reads: name, numbers per image.
struct Case {
    graph: Graph,
    settings: Settings,
    inputs: Vec<(String, usize)>,
    classes: Option<u32>,
    /// Several operations: in bf16 what lies between is rounded too, and a ReLU's mask flips where it rounds across zero.
    chained: bool,
}

/// What bf16 may be off after several operations.
const CHAINED: f64 = 4e-2;

fn case(
    name: &str,
    batch: usize,
    shape: Shape,
    op: impl FnOnce(&mut GraphBuilder, NodeId) -> Result<NodeId, Error>,
) -> Case {
    let mut g = GraphBuilder::new(name);
    let x = g.input("x", shape).unwrap();
    let y = op(&mut g, x).unwrap();
    let len = g.shape(y).len();
    g.output("y", y).unwrap();
    g.external_gradient("r", y, 0.5).unwrap();
    Case {
        graph: g.finish().unwrap(),
        settings: Settings { input_gradients: true, ..Settings::train(batch) },
        inputs: vec![("x".into(), shape.len()), ("r".into(), len)],
        classes: None,
        chained: false,
    }
}

fn chained(
    name: &str,
    batch: usize,
    shape: Shape,
    ops: impl FnOnce(&mut GraphBuilder, NodeId) -> Result<NodeId, Error>,
) -> Case {
    Case { chained: true, ..case(name, batch, shape, ops) }
}

fn labels(batch: usize, classes: u32) -> Vec<u32> {
    (0..batch as u32).map(|i| (i * 7 + 3) % classes).collect()
}

/// Everything that a run leaves, by name.
fn outcome<D: Device>(device: &D, case: &Case) -> Vec<(String, Vec<f32>)> {
    let mut bench = Bench::new(device, case.graph.clone(), case.settings);
    let memory = &mut bench.memory;
    for slot in case.graph.slots().iter().filter(|slot| slot.kind == SlotKind::Weight) {
        let values = memory.parameter(&slot.name).unwrap();
        memory.set_parameter(&slot.name, &rounded(&values)).unwrap();
    }
    let labels = case.classes.map(|classes| labels(case.settings.batch, classes));
    for (name, len) in &case.inputs {
        let mut values = hashed(name_seed(name), len * case.settings.batch);
        // Images tell of their class, as those one trains on do: gradients of noise cancel to little but rounding.
        for (image, class) in values.chunks_mut(*len).zip(labels.iter().flatten()) {
            image.iter_mut().zip(hashed(*class + 1, *len)).for_each(|(pixel, drawn)| *pixel += drawn);
        }
        memory.set_input(name, &rounded(&values)).unwrap();
    }
    if let Some(labels) = &labels {
        memory.set_classes("labels", labels).unwrap();
    }
    bench.run();
    let memory = &bench.memory;
    let mut found = vec![];
    for slot in case.graph.slots() {
        let values = match slot.kind {
            SlotKind::Statistic => memory.statistic(&slot.name),
            _ => memory.gradient(&slot.name),
        };
        found.push((slot.name.clone(), values.unwrap()));
    }
    for name in ["y", "x.gradient"] {
        found.extend(memory.output(name).ok().map(|values| (name.to_owned(), values)));
    }
    if let Ok(metrics) = memory.metrics("loss") {
        found.push(("loss".into(), vec![metrics.loss, metrics.top1, metrics.top5, metrics.rows]));
    }
    found
}

fn assert_agreement(case: &Case) {
    let expected = outcome(&cpu(), case);
    for (precision, tolerance) in PRECISIONS {
        let rounds = case.chained && precision == Precision::Bf16;
        let tolerance = if rounds { CHAINED } else { tolerance };
        with_cuda(precision, |device| {
            for ((name, ours), (_, theirs)) in outcome(device, case).iter().zip(&expected) {
                let error = relative_error(ours, theirs);
                let what = format!("{}, {precision:?}: {name}", case.graph.name());
                // A gradient that cancels to nothing has no digits to agree on.
                let size = theirs.iter().map(|v| f64::from(v.abs())).fold(0.0, f64::max);
                assert!(error < tolerance || size < 1e-4, "{what}: {error:.2e} off");
            }
        });
    }
}

/// Channels that are whole vectors of 16 bytes, and some that are not; rows enough for many blocks, and one.
fn shapes() -> [(usize, Shape); 6] {
    [
        (32, Shape::new(16, 16, 32)),
        (4, Shape::new(7, 5, 160)),
        (6, Shape::new(9, 7, 19)),
        (2, Shape::new(3, 4, 1)),
        (2, Shape::new(2, 2, 2100)), // more vectors than a block has threads, f32
        (8, Shape::new(12, 12, 12)), // whole vectors of f32, not of bf16
    ]
}

#[test]
fn batch_norm_in_every_mode_scope_and_activation() {
    for (batch, shape) in shapes() {
        for norm in [NormMode::Train, NormMode::Eval] {
            for (statistics, parameters) in [
                (Scope::Joint, Scope::Joint),
                (Scope::Segment, Scope::Joint),
                (Scope::Segment, Scope::Segment),
                (Scope::Joint, Scope::Segment),
            ] {
                let activations = [Activation::None, Activation::Relu, Activation::Relu6];
                let activation = activations[(batch + parameters as usize) % 3];
                let options = BatchNorm { activation, ..BatchNorm::plain() };
                let options = options.segmented(2, statistics, parameters);
                let name =
                    format!("batch norm {norm:?} {statistics:?}/{parameters:?} {activation:?} {shape}");
                let mut case = case(&name, batch, shape, |g, x| g.batch_norm("bn", x, options));
                case.settings.norm = norm;
                assert_agreement(&case);
            }
        }
    }
}

/// More than the multiprocessors hold between them (29 MB on an H200; 33 MB here in f32, as much in bf16 where input and
/// gradient are kept): some rows are read twice. One launch, so no segments.
#[test]
fn batch_norm_of_large_activations() {
    let (batch, shape) = (8, Shape::new(256, 256, 16));
    let mut present = false;
    with_cuda(Precision::F32, |_| present = true);
    // Only where there is a GPU: the CPU's share takes seconds.
    if present {
        let relu = BatchNorm::relu();
        assert_agreement(&case("large norm", batch, shape, |g, x| g.batch_norm("bn", x, relu)));
        assert_agreement(&chained("large norm onto", batch, shape, |g, x| {
            let a = g.channel_scale("a", x, 1)?;
            let b = g.batch_norm("b", x, BatchNorm::plain())?;
            g.add("sum", a, b, Activation::Relu)
        }));
    }
}

/// One launch for statistics and application, with rows and channels of every kind.
#[test]
fn batch_norm_without_segments() {
    for (batch, shape) in shapes() {
        for norm in [NormMode::Train, NormMode::Recalibrate, NormMode::BatchStatistics] {
            let name = format!("batch norm {norm:?} {shape}");
            let mut case = case(&name, batch, shape, |g, x| g.batch_norm("bn", x, BatchNorm::relu()));
            case.settings.norm = norm;
            assert_agreement(&case);
        }
    }
}

/// The mean a thousand deviations from zero: sums of squares would lose all digits.
#[test]
fn batch_norm_far_from_zero() {
    fn normalised<D: Device>(device: &D) -> Vec<f32> {
        let (batch, shape) = (16, Shape::new(8, 8, 16));
        let mut g = GraphBuilder::new("far");
        let x = g.input("x", shape).unwrap();
        let y = g.batch_norm("bn", x, BatchNorm::plain()).unwrap();
        g.output("y", y).unwrap();
        let mut bench = Bench::new(device, g.finish().unwrap(), Settings::batch_statistics(batch));
        let values: Vec<f32> = hashed(1, batch * shape.len()).iter().map(|v| 1000.0 + v).collect();
        bench.memory.set_input("x", &values).unwrap();
        bench.run();
        bench.memory.output("y").unwrap()
    }
    let expected = normalised(&cpu());
    with_cuda(Precision::F32, |device| {
        let error = relative_error(&normalised(device), &expected);
        // x/σ is about 1700, whose last digit is 1e-4 of σ: neither side can know y better.
        assert!(error < 5e-4, "{error:.2e}");
    });
}

#[test]
fn residual_sums_and_activations() {
    for (batch, shape) in shapes() {
        for activation in [Activation::None, Activation::Relu, Activation::Relu6] {
            assert_agreement(&chained(&format!("norm onto {shape}"), batch, shape, |g, x| {
                let a = g.channel_scale("a", x, 1)?;
                let b = g.batch_norm("b", x, BatchNorm::plain())?;
                let sum = g.add("sum", a, b, activation)?;
                g.activation("act", sum, Activation::Relu6)
            }));
            assert_agreement(&chained(&format!("sums {shape}"), batch, shape, |g, x| {
                let a = g.channel_scale("a", x, 2)?;
                let b = g.channel_scale("b", a, 1)?;
                let first = g.add("first", a, b, activation)?;
                let second = g.add("second", b, first, Activation::None)?;
                g.add("third", second, a, Activation::None)
            }));
        }
    }
}

#[test]
fn concat_pools_and_softmax() {
    for (batch, shape) in shapes() {
        assert_agreement(&chained(&format!("concat {shape}"), batch, shape, |g, x| {
            let a = g.channel_scale("a", x, 1)?;
            let xx = g.concat("xx", &[a, x])?;
            let one = g.global_average_pool("one", x)?;
            let one = g.linear("fc", one, 5, true)?;
            g.output("fc.out", one)?;
            g.concat("again", &[xx, a])
        }));
        for pool in [Pool2d::max(3, 2, 1), Pool2d::average(3, 2, 1), Pool2d::average(2, 1, 0)] {
            if shape.height > 2 {
                let name = format!("{pool:?} {shape}");
                assert_agreement(&case(&name, batch, shape, |g, x| g.pool("pool", x, pool)));
            }
        }
        let name = format!("global {shape}");
        assert_agreement(&case(&name, batch, shape, |g, x| g.global_average_pool("pool", x)));
    }
    for classes in [1, 5, 32, 1000] {
        assert_agreement(&case("softmax", 7, Shape::vector(classes), |g, x| g.softmax("p", x)));
    }
}

#[test]
fn convolutions_of_every_kind() {
    for (batch, shape, options) in [
        (4, Shape::new(8, 8, 64), Conv2d::new(128, 3).padding(1)),
        (4, Shape::new(8, 8, 64), Conv2d::new(32, 1)),
        (4, Shape::new(9, 8, 32), Conv2d::new(64, 3).stride(2).padding(1)),
        (4, Shape::new(16, 16, 3), Conv2d::new(16, 3).padding(1)),
        (2, Shape::new(13, 11, 1), Conv2d::new(5, 5).padding(2)),
        (2, Shape::new(8, 8, 48), Conv2d::new(48, 3).padding(1).groups(48)),
        (2, Shape::new(8, 7, 48), Conv2d::new(96, 3).stride(2).padding(1).groups(48)),
        (2, Shape::new(6, 6, 32), Conv2d::new(64, 3).padding(1).groups(4)),
        (3, Shape::new(5, 7, 7), Conv2d::new(11, 3)),
    ] {
        let name = format!("{shape} {options:?}");
        assert_agreement(&case(&name, batch, shape, |g, x| g.conv("conv", x, options)));
        // Accumulating into a sum, forward and backward.
        assert_agreement(&case(&format!("twice {name}"), batch, shape, |g, x| {
            let a = g.conv("a", x, options)?;
            let b = g.conv("b", x, options)?;
            g.add("sum", a, b, Activation::None)
        }));
    }
    for (batch, width, out) in [(128, 640, 100), (5, 7, 3), (1, 1, 1)] {
        assert_agreement(&case("linear", batch, Shape::vector(width), |g, x| g.linear("fc", x, out, true)));
    }
}

#[test]
fn losses() {
    for (batch, classes) in [(128, 100), (6, 10), (2, 1000)] {
        for smoothing in [0.0, 0.1] {
            let mut g = GraphBuilder::new(format!("loss of {classes}"));
            let x = g.input("x", Shape::vector(classes)).unwrap();
            let hard = CrossEntropy::classes("labels").smoothing(smoothing).segments(2);
            g.cross_entropy("loss", x, hard).unwrap();
            let soft = CrossEntropy::probabilities("teacher").smoothing(smoothing).weight(-0.7);
            g.cross_entropy("soft", x, soft).unwrap();
            let case = Case {
                graph: g.finish().unwrap(),
                settings: Settings { input_gradients: true, ..Settings::train(batch) },
                inputs: vec![("x".into(), classes), ("teacher".into(), classes)],
                classes: Some(classes as u32),
                chained: false,
            };
            assert_agreement(&case);
        }
    }
}

/// A wide residual network of two blocks and a mobile one, 16 images of 16×16.
fn networks(batch: usize) -> Vec<Case> {
    let finish = |mut g: GraphBuilder, x: NodeId, shape: Shape| {
        let x = g.global_average_pool("pool", x).unwrap();
        let z = g.linear("fc", x, 10, true).unwrap();
        g.cross_entropy("loss", z, CrossEntropy::classes("labels").smoothing(0.1)).unwrap();
        g.output("y", z).unwrap();
        Case {
            graph: g.finish().unwrap(),
            settings: Settings::train(batch),
            inputs: vec![("x".into(), shape.len())],
            classes: Some(10),
            chained: true,
        }
    };
    let shape = Shape::new(16, 16, 3);
    let mut g = GraphBuilder::new("wide");
    let x = g.input("x", shape).unwrap();
    let mut x = g.conv("stem", x, Conv2d::new(16, 3).padding(1)).unwrap();
    for (i, (out, stride)) in [(32, 1), (32, 1), (64, 2)].into_iter().enumerate() {
        let a = g.batch_norm(format!("{i}.bn1"), x, BatchNorm::relu()).unwrap();
        let conv = Conv2d::new(out, 3).stride(stride).padding(1);
        let h = g.conv(format!("{i}.conv1"), a, conv).unwrap();
        let h = g.batch_norm(format!("{i}.bn2"), h, BatchNorm::relu()).unwrap();
        let h = g.conv(format!("{i}.conv2"), h, Conv2d::new(out, 3).padding(1)).unwrap();
        let same = g.shape(x).channels == out;
        let shortcut = Conv2d::new(out, 1).stride(stride);
        let s = if same { x } else { g.conv(format!("{i}.shortcut"), a, shortcut).unwrap() };
        x = g.add(format!("{i}.add"), s, h, Activation::None).unwrap();
    }
    let x = g.batch_norm("bn", x, BatchNorm::relu()).unwrap();
    let wide = finish(g, x, shape);

    let mut g = GraphBuilder::new("mobile");
    let x = g.input("x", shape).unwrap();
    let x = g.conv("stem", x, Conv2d::new(16, 3).padding(1)).unwrap();
    let x = g.batch_norm("bn", x, BatchNorm::relu6()).unwrap();
    let h = g.conv("expand", x, Conv2d::new(48, 1)).unwrap();
    let h = g.batch_norm("bn1", h, BatchNorm::relu6()).unwrap();
    let h = g.conv("depthwise", h, Conv2d::new(48, 3).padding(1).groups(48)).unwrap();
    let h = g.batch_norm("bn2", h, BatchNorm::relu6()).unwrap();
    let h = g.conv("project", h, Conv2d::new(16, 1)).unwrap();
    let h = g.batch_norm("bn3", h, BatchNorm::plain()).unwrap();
    let x = g.add("add", x, h, Activation::None).unwrap();
    vec![wide, finish(g, x, shape)]
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    common::dot(a, b) / (common::dot(a, a) * common::dot(b, b)).sqrt()
}

/// bf16 rounds after every operation; what training needs is that gradients point the same way.
#[test]
fn small_networks_have_the_loss_and_the_directions_of_the_cpu() {
    for case in networks(64) {
        let expected = outcome(&cpu(), &case);
        with_cuda(Precision::F32, |device| {
            for ((name, ours), (_, theirs)) in outcome(device, &case).iter().zip(&expected) {
                let error = relative_error(ours, theirs);
                // Where the two round to other sides of a ReLU's kink, a gradient through it is there or not.
                assert!(error < 5e-3, "{} {name}: {error:.2e}", case.graph.name());
            }
        });
        with_cuda(Precision::Bf16, |device| {
            for ((name, ours), (_, theirs)) in outcome(device, &case).iter().zip(&expected) {
                let what = format!("{} {name}", case.graph.name());
                match name.as_str() {
                    "loss" => {
                        let error = (ours[0] - theirs[0]).abs() / theirs[0];
                        assert!(error < 0.01, "{what}: {} instead of {}", ours[0], theirs[0]);
                    }
                    name if name.contains("running") || name == "y" => {
                        let error = relative_error(ours, theirs);
                        assert!(error < 0.05, "{what}: {error:.2e}");
                    }
                    // A scale's gradient is a sum that nearly cancels: thousands of rounded numbers of both signs.
                    _ => {
                        let is_vector = name.contains("bn") || name.ends_with("bias");
                        let (cosine, least) = (cosine(ours, theirs), if is_vector { 0.97 } else { 0.99 });
                        println!("{what}: cosine {cosine:.5}");
                        assert!(cosine > least, "{what}: cosine {cosine}");
                    }
                }
            }
        });
    }
}

/// Twenty steps from the same start: the update reaches what convolutions read.
#[test]
fn training_follows_the_cpu() {
    fn losses<D: Device>(device: &D, case: &Case) -> Vec<f32> {
        let mut bench = Bench::new(device, case.graph.clone(), case.settings);
        let memory = &mut bench.memory;
        memory.set_input("x", &rounded(&hashed(5, 16 * 16 * 16 * 3))).unwrap();
        memory.set_classes("labels", &(0..16).map(|i| i % 10).collect::<Vec<u32>>()).unwrap();
        let groups = vec![ParameterGroup::new(0..memory.layout().parameter_numbers, 5e-4)];
        let options = SgdOptions { momentum: 0.9, nesterov: true };
        let mut optimizer = Sgd::new(memory, options, groups).unwrap();
        optimizer.set_rates(&[0.02]).unwrap();
        let mut step = || {
            bench.memory.run(&bench.program).unwrap();
            optimizer.step(&mut bench.memory);
            bench.memory.metrics("loss").unwrap().loss
        };
        (0..20).map(|_| step()).collect()
    }
    let case = &networks(16)[0];
    let expected = losses(&cpu(), case);
    assert!(expected[19] < 0.7 * expected[0], "the network learns its batch: {expected:?}");
    for (precision, tolerance) in [(Precision::F32, 0.01), (Precision::Bf16, 0.05)] {
        with_cuda(precision, |device| {
            let found = losses(device, case);
            let worst = found.iter().zip(&expected).map(|(a, b)| (a - b).abs() / b).fold(0.0, f32::max);
            assert!(worst < tolerance, "{precision:?}: {found:?} instead of {expected:?}");
        });
    }
}

/// Weights of a graph composed from blocks, nested (few blocks) and in a grid (many), and the gradients of those.
#[test]
fn a_graph_reads_composed_weights_and_its_gradients_go_back() {
    fn run<D: Device>(device: &D, count: usize, block: Block) -> Vec<Vec<f32>> {
        let (batch, channels) = (8, 32);
        let mut g = GraphBuilder::new("composed");
        let x = g.input("x", Shape::new(6, 6, channels)).unwrap();
        let x = g.conv("conv", x, Conv2d::new(channels, 3).padding(1)).unwrap();
        g.output("y", x).unwrap();
        g.external_gradient("r", x, 1.0).unwrap();
        let graph = g.finish().unwrap();
        let cells = [channels.div_ceil(block.rows), channels.div_ceil(block.cols)];
        let mut builder = LayoutBuilder::new();
        builder.parameter("templates", count * block.len()).unwrap();
        builder.parameter("coefficients", cells[0] * cells[1] * count).unwrap();
        builder.graph(&graph, &Settings::train(batch)).unwrap();
        let layout = builder.finish(device);
        let region = |name: &str| layout.parameter(name).unwrap();
        let uses = (0..cells[0] * cells[1]).map(|cell| {
            let at = [cell / cells[1] * block.rows, cell % cells[1] * block.cols];
            let extent = [block.rows.min(channels - at[0]), block.cols.min(channels - at[1])];
            MixUse { cell, tensor: region("conv.weight"), inputs: channels, at, extent, factor: 0.1 }
        });
        let set = MixSet {
            name: "set".into(),
            block,
            blocks: region("templates"),
            coefficients: Some(region("coefficients")),
            uses: uses.collect(),
            gradients: MixGradients::Both,
        };
        let program = Program::compile(device, &graph, &Settings::train(batch), &layout).unwrap();
        let mix = Mix::new(device, vec![set]).unwrap();
        let arena = program.plan().arena_bytes.max(mix.scratch_bytes());
        let mut memory = Memory::new(device, layout, arena).unwrap();
        fill(&graph, &mut memory);
        for name in ["templates", "coefficients"] {
            let len = memory.layout().parameter(name).unwrap().len;
            memory.set_parameter(name, &hashed(name_seed(name), len)).unwrap();
        }
        let images = batch * 36 * channels;
        memory.set_input("x", &rounded(&hashed(1, images))).unwrap();
        memory.set_input("r", &rounded(&hashed(2, images))).unwrap();
        memory.mix(&mix).unwrap();
        memory.run(&program).unwrap();
        memory.mix_backward(&mix).unwrap();
        vec![
            memory.parameter("conv.weight").unwrap(),
            memory.output("y").unwrap(),
            memory.gradient("templates").unwrap(),
            memory.gradient("coefficients").unwrap(),
        ]
    }
    for (count, rows, cols) in [(3, 32, 32), (8, 32, 17), (20, 8, 8), (12, 5, 32)] {
        let block = Block { rows, positions: 9, cols };
        let expected = run(&cpu(), count, block);
        for (precision, tolerance) in PRECISIONS {
            with_cuda(precision, |device| {
                for (ours, theirs) in run(device, count, block).iter().zip(&expected) {
                    let error = relative_error(ours, theirs);
                    assert!(error < tolerance, "{precision:?}, {count} blocks of {rows}×{cols}: {error:.2e}");
                }
            });
        }
    }
}

#[test]
fn devices_and_storages_that_cannot_be() {
    match CudaDevice::new(1000, Precision::F32) {
        Err(Error::Cuda(CudaError::NoSuchDevice { ordinal: 1000, .. } | CudaError::NoDriver { .. })) => {}
        Err(Error::Cuda(CudaError::OldDriver { .. })) => {}
        other => panic!("{other:?}"),
    }
    with_cuda(Precision::F32, |device| {
        let layout = LayoutBuilder::new().parameter("bank", 1 << 50).unwrap().finish(device);
        let error = Memory::new(device, layout, 0).unwrap_err();
        let Error::Cuda(CudaError::OutOfMemory { asked, free, total, .. }) = error else { panic!("{error}") };
        assert!(asked == 1 << 52 && free <= total && total > 0, "{asked} {free} {total}");
        device.finish().unwrap();
        let case = &networks(16)[0];
        let mut bench = Bench::new(device, case.graph.clone(), case.settings);
        bench.memory.set_control(Control::ValidRows, 3);
        bench.run();
        assert_eq!(bench.memory.metrics("loss").unwrap().rows, 3.0, "the device works on");
    });
}

#[test]
fn a_profile_names_every_launch() {
    with_cuda(Precision::Bf16, |device| {
        let case = &networks(16)[0];
        let mut bench = Bench::new(device, case.graph.clone(), case.settings);
        let mut times = vec![];
        bench.memory.profile(&bench.program, &mut |index, time| times.push((index, time))).unwrap();
        // Steps that are one launch with an earlier one have no time of their own.
        let joined =
            |index: usize| matches!(bench.program.steps()[index].call, Call::NormApply(_) | Call::Copy(_));
        let timed: Vec<usize> = times.iter().map(|(index, _)| *index).collect();
        assert!(timed.is_sorted_by(|a, b| a < b), "in order, each once: {timed:?}");
        let missing = (0..bench.program.steps().len()).filter(|index| !timed.contains(index));
        assert!(
            missing.clone().count() > 0 && missing.clone().all(joined),
            "{:?}",
            missing.collect::<Vec<_>>()
        );
        assert!(times.iter().all(|(_, time)| time.as_nanos() > 0));
    });
}
