//! Checks of modes, segments, padded batches, and several graphs over one arena.

mod common;

use common::{Bench, fill, hashed, layout_of, on_every_device, relative_error};
use superweight_engine::{
    Activation, BatchNorm, Control, Conv2d, CrossEntropy, Device, Graph, GraphBuilder, Memory,
    NormMode, Program, Settings, Shape,
};

fn network(name: &str, classes: usize, loss: CrossEntropy) -> Graph {
    let mut g = GraphBuilder::new(name);
    let x = g.input("x", Shape::new(6, 6, 3)).unwrap();
    let x = g.conv(format!("{name}.conv1"), x, Conv2d::new(8, 3).padding(1)).unwrap();
    let h = g.batch_norm(format!("{name}.bn1"), x, BatchNorm::relu()).unwrap();
    let h = g.conv(format!("{name}.conv2"), h, Conv2d::new(8, 3).padding(1)).unwrap();
    let x = g.add(format!("{name}.add"), x, h, Activation::None).unwrap();
    let x = g.batch_norm(format!("{name}.bn2"), x, BatchNorm::relu()).unwrap();
    let x = g.global_average_pool(format!("{name}.pool"), x).unwrap();
    let z = g.linear(format!("{name}.fc"), x, classes, true).unwrap();
    let p = g.softmax(format!("{name}.softmax"), z).unwrap();
    g.cross_entropy(format!("{name}.loss"), z, loss).unwrap();
    g.output(format!("{name}.logits"), z).unwrap();
    g.output(format!("{name}.probabilities"), p).unwrap();
    g.finish().unwrap()
}

fn compile<D: Device>(memory: &Memory<D>, graph: &Graph, settings: Settings) -> Program<D> {
    Program::compile(memory.device(), graph, &settings, memory.layout()).unwrap()
}

/// Memory for several programs, with parameters, images and labels.
fn memory_for<D: Device>(device: &D, all: &[(&Graph, Settings)]) -> Memory<D> {
    let layout = layout_of(device, all);
    let arena = all.iter().map(|(graph, settings)| {
        Program::compile(device, graph, settings, &layout).unwrap().plan().arena_bytes
    });
    let arena = arena.max().unwrap();
    let mut memory = Memory::new(device, layout, arena).unwrap();
    all.iter().for_each(|(graph, _)| fill(graph, &mut memory));
    let images = memory.layout().io("x").unwrap().len;
    memory.set_input("x", &hashed(5, images)).unwrap();
    if let Ok(labels) = memory.layout().io("labels") {
        let classes: Vec<u32> = (0..labels.len as u32).map(|i| i % 4).collect();
        memory.set_classes("labels", &classes).unwrap();
    }
    memory
}

fn labels() -> CrossEntropy {
    CrossEntropy::classes("labels")
}

#[test]
fn running_statistics_change_in_training_and_recalibration_only() {
    on_every_device!(|device| {
        let graph = network("n", 4, labels());
        for (settings, changes) in [
            (Settings::train(4), true),
            (Settings::evaluate(4), false),
            (Settings::batch_statistics(4), false),
            (Settings::recalibrate(4), true),
        ] {
            let mut memory = memory_for(device, &[(&graph, settings)]);
            let before = memory.statistic("n.bn1.running_mean").unwrap();
            let program = compile(&memory, &graph, settings);
            memory.run(&program).unwrap();
            assert_eq!(
                memory.statistic("n.bn1.running_mean").unwrap() != before,
                changes,
                "{settings:?}"
            );
        }
    });
}

#[test]
fn recalibration_averages_over_the_pass() {
    on_every_device!(|device| {
        let mut g = GraphBuilder::new("bn");
        let x = g.input("x", Shape::new(3, 3, 5)).unwrap();
        let y = g.batch_norm("bn", x, BatchNorm::plain()).unwrap();
        g.output("y", y).unwrap();
        let mut bench = Bench::new(device, g.finish().unwrap(), Settings::recalibrate(4));
        let (mut mean, mut variance) = (vec![0f64; 5], vec![0f64; 5]);
        for batch in 0..3u32 {
            let data = hashed(batch, 4 * 9 * 5);
            for c in 0..5 {
                let values: Vec<f64> =
                    data.iter().skip(c).step_by(5).map(|v| f64::from(*v)).collect();
                let m = values.iter().sum::<f64>() / 36.0;
                mean[c] += m / 3.0;
                variance[c] += values.iter().map(|v| (v - m) * (v - m)).sum::<f64>() / 35.0 / 3.0;
            }
            bench.memory.set_input("x", &data).unwrap();
            bench.memory.set_control(Control::BatchOfPass, batch + 1);
            bench.run();
        }
        let as_f32 = |v: Vec<f64>| v.into_iter().map(|v| v as f32).collect::<Vec<_>>();
        assert!(
            relative_error(&bench.memory.statistic("bn.running_mean").unwrap(), &as_f32(mean))
                < 1e-6
        );
        assert!(
            relative_error(&bench.memory.statistic("bn.running_var").unwrap(), &as_f32(variance))
                < 1e-6
        );
    });
}

#[test]
fn batch_statistics_give_the_logits_of_training() {
    on_every_device!(|device| {
        let graph = network("n", 4, labels());
        let (train, still) = (Settings::train(4), Settings::batch_statistics(4));
        let mut memory = memory_for(device, &[(&graph, train), (&graph, still)]);
        let (train, still) = (compile(&memory, &graph, train), compile(&memory, &graph, still));
        memory.run(&train).unwrap();
        let logits = memory.output("n.logits").unwrap();
        memory.run(&still).unwrap();
        assert_eq!(memory.output("n.logits").unwrap(), logits);
    });
}

#[test]
fn frozen_weights_ignore_later_changes() {
    on_every_device!(|device| {
        let graph = network("n", 4, labels());
        let settings = Settings::evaluate(4);
        let mut memory = memory_for(device, &[(&graph, settings)]);
        let (program, other) =
            (compile(&memory, &graph, settings), compile(&memory, &graph, settings));
        memory.run(&program).unwrap();
        let logits = memory.output("n.logits").unwrap();
        let frozen = memory.freeze(&program).unwrap();
        memory.set_parameter("n.conv1.weight", &[0.0; 8 * 27]).unwrap();
        memory.run_frozen(&program, &frozen).unwrap();
        assert_eq!(memory.output("n.logits").unwrap(), logits);
        memory.run(&program).unwrap();
        assert_ne!(memory.output("n.logits").unwrap(), logits);
        assert!(memory.run_frozen(&other, &frozen).is_err(), "frozen for another program");
    });
}

#[test]
fn evaluation_stores_nothing_for_a_backward_pass() {
    on_every_device!(|device| {
        let deep = |layers: usize| {
            let mut g = GraphBuilder::new("deep");
            let mut x = g.input("x", Shape::new(16, 16, 8)).unwrap();
            for i in 0..layers {
                x = g.conv(format!("conv{i}"), x, Conv2d::new(8, 3).padding(1)).unwrap();
                x = g.batch_norm(format!("bn{i}"), x, BatchNorm::relu()).unwrap();
            }
            let x = g.global_average_pool("pool", x).unwrap();
            g.cross_entropy("loss", x, labels()).unwrap();
            let graph = g.finish().unwrap();
            let settings = [Settings::train(64), Settings::evaluate(64)];
            let layout = layout_of(device, &settings.map(|s| (&graph, s)));
            settings
                .map(|s| Program::compile(device, &graph, &s, &layout).unwrap().plan().arena_bytes)
        };
        let ([short_train, short], [long_train, long]) = (deep(4), deep(12));
        assert_eq!(long, short, "evaluation memory does not grow with depth");
        let kept = 2 * 8 * 64 * 16 * 16 * 8 * 4;
        assert!(long_train - short_train >= kept, "training keeps two activations per layer");
    });
}

#[test]
fn padding_is_ignored_in_metrics() {
    on_every_device!(|device| {
        let graph = network("n", 4, labels());
        let settings = [Settings::evaluate(3), Settings::evaluate(8)];
        let mut memory = memory_for(device, &settings.map(|s| (&graph, s)));
        let [small, large] = settings.map(|s| compile(&memory, &graph, s));
        memory.run(&small).unwrap();
        let exact = memory.metrics("n.loss").unwrap();
        memory.set_control(Control::ValidRows, 3);
        memory.run(&large).unwrap();
        let padded = memory.metrics("n.loss").unwrap();
        assert_eq!((padded.rows, padded.top1, padded.top5), (3.0, exact.top1, 3.0));
        assert!((padded.loss - exact.loss).abs() < 1e-6);
        memory.set_control(Control::ValidRows, 0);
        memory.run(&large).unwrap();
        assert_eq!(memory.metrics("n.loss").unwrap().loss, 0.0);
    });
}

#[test]
fn padded_rows_have_no_gradient() {
    on_every_device!(|device| {
        let graph = network("n", 4, labels().segments(2));
        let settings =
            Settings { norm: NormMode::Eval, input_gradients: true, ..Settings::train(6) };
        let mut memory = memory_for(device, &[(&graph, settings)]);
        let program = compile(&memory, &graph, settings);
        memory.set_control(Control::ValidRows, 2);
        memory.run(&program).unwrap();
        assert_eq!(memory.metrics("n.loss").unwrap().rows, 4.0);
        let gradient = memory.output("x.gradient").unwrap();
        for (row, gradient) in gradient.chunks_exact(6 * 6 * 3).enumerate() {
            assert_eq!(gradient.iter().all(|g| *g == 0.0), row % 3 == 2, "row {row}");
        }
    });
}

/// Three heads of four classes give the same bits as three rows of four classes. Padding applies to
/// rows of the batch, not to heads.
#[test]
fn heads_are_equivalent_to_rows() {
    on_every_device!(|device| {
        for (segments, valid) in [(1, u32::MAX), (2, u32::MAX), (2, 2), (1, 5), (1, 0)] {
            let found = [(1, 3), (3, 1)].map(|(side_by_side, heads)| {
                let mut g = GraphBuilder::new("heads");
                let x = g.input("x", Shape::vector(4 * heads)).unwrap();
                let loss = labels().smoothing(0.1).weight(0.7).segments(segments).heads(heads);
                g.cross_entropy("loss", x, loss).unwrap();
                let graph = g.finish().unwrap();
                let settings =
                    Settings { input_gradients: true, ..Settings::train(6 * side_by_side) };
                let mut memory = memory_for(device, &[(&graph, settings)]);
                let program = compile(&memory, &graph, settings);
                memory
                    .set_classes("labels", &(0..18).map(|i| i * i % 4).collect::<Vec<u32>>())
                    .unwrap();
                memory.set_control(Control::ValidRows, valid.saturating_mul(side_by_side as u32));
                memory.run(&program).unwrap();
                (memory.metrics("loss").unwrap(), memory.output("x.gradient").unwrap())
            });
            assert_eq!(found[0], found[1], "{segments} segments, {valid} valid");
            let rows = 3.0 * valid.min(6 / segments as u32) as f32 * segments as f32;
            assert_eq!(found[1].0.rows, rows, "{segments} segments, {valid} valid");
        }
    });
}

/// Slimmable training: the wide network's probabilities are the narrow network's target.
#[test]
fn the_output_of_one_graph_is_the_target_of_another() {
    on_every_device!(|device| {
        let teacher = network("teacher", 4, labels());
        let student = network("student", 4, CrossEntropy::probabilities("teacher.probabilities"));
        let settings = Settings::train(4);
        let mut memory = memory_for(device, &[(&teacher, settings), (&student, settings)]);
        let (teach, learn) =
            (compile(&memory, &teacher, settings), compile(&memory, &student, settings));
        memory.run(&teach).unwrap();
        let probabilities = memory.output("teacher.probabilities").unwrap();
        let gradient = memory.gradient("teacher.conv1.weight").unwrap();
        memory.run(&learn).unwrap();
        assert_eq!(
            memory.output("teacher.probabilities").unwrap(),
            probabilities,
            "outputs outlive other programs"
        );
        assert_eq!(
            memory.gradient("teacher.conv1.weight").unwrap(),
            gradient,
            "and so do gradients"
        );
        let logits = memory.output("student.logits").unwrap();
        let mut expected = 0f64;
        for (z, t) in logits.chunks_exact(4).zip(probabilities.chunks_exact(4)) {
            let log_sum = z.iter().map(|z| f64::from(*z).exp()).sum::<f64>().ln();
            expected += z
                .iter()
                .zip(t)
                .map(|(z, t)| f64::from(*t) * (log_sum - f64::from(*z)))
                .sum::<f64>()
                / 4.0;
        }
        assert!((f64::from(memory.metrics("student.loss").unwrap().loss) - expected).abs() < 1e-5);
    });
}

#[test]
fn gradients_accumulate_if_set() {
    on_every_device!(|device| {
        let graph = network("n", 4, labels());
        let (set, add) = (Settings::train(4), Settings { accumulate: true, ..Settings::train(4) });
        let mut memory = memory_for(device, &[(&graph, set), (&graph, add)]);
        let (set, add) = (compile(&memory, &graph, set), compile(&memory, &graph, add));
        let names: Vec<String> =
            memory.layout().parameters().map(|(name, _)| name.to_owned()).collect();
        memory.run(&set).unwrap();
        let once: Vec<Vec<f32>> = names.iter().map(|name| memory.gradient(name).unwrap()).collect();
        memory.run(&add).unwrap();
        for (name, once) in names.iter().zip(once) {
            let twice: Vec<f32> = once.iter().map(|g| 2.0 * g).collect();
            let norm: f64 = once.iter().map(|g| f64::from(g.abs())).sum();
            if norm > 1e-4 {
                assert!(relative_error(&memory.gradient(name).unwrap(), &twice) < 1e-5, "{name}");
            }
        }
    });
}

/// Weighted losses at two depths: the gradient is the weighted sum of their gradients.
#[test]
fn several_weighted_losses() {
    on_every_device!(|device| {
        let two_exits = |early: f32, late: f32| {
            let mut g = GraphBuilder::new("exits");
            let x = g.input("x", Shape::new(6, 6, 3)).unwrap();
            let x = g.conv("conv", x, Conv2d::new(5, 3).padding(1)).unwrap();
            let p = g.global_average_pool("pool1", x).unwrap();
            let z = g.linear("exit1", p, 4, true).unwrap();
            g.cross_entropy("early", z, labels().weight(early)).unwrap();
            let x = g.conv("conv2", x, Conv2d::new(5, 3).padding(1)).unwrap();
            let p = g.global_average_pool("pool2", x).unwrap();
            let z = g.linear("exit2", p, 4, true).unwrap();
            g.cross_entropy("late", z, labels().weight(late)).unwrap();
            let graph = g.finish().unwrap();
            let settings = Settings::train(4);
            let mut memory = memory_for(device, &[(&graph, settings)]);
            let program = compile(&memory, &graph, settings);
            memory.run(&program).unwrap();
            memory.gradient("conv.weight").unwrap()
        };
        let (a, b, both) = (two_exits(1.0, 0.0), two_exits(0.0, 1.0), two_exits(0.3, 0.7));
        let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| 0.3 * a + 0.7 * b).collect();
        assert!(relative_error(&both, &expected) < 1e-5);
    });
}

#[test]
fn a_parameter_that_no_loss_depends_on_has_gradient_zero() {
    on_every_device!(|device| {
        let mut g = GraphBuilder::new("unused");
        let x = g.input("x", Shape::vector(3)).unwrap();
        let used = g.linear("used", x, 4, true).unwrap();
        let unused = g.linear("unused", x, 4, true).unwrap();
        g.linear("dead", x, 4, true).unwrap();
        g.output("y", unused).unwrap();
        g.cross_entropy("loss", used, labels()).unwrap();
        let graph = g.finish().unwrap();
        let settings = Settings::train(4);
        let mut memory = memory_for(device, &[(&graph, settings)]);
        let program = compile(&memory, &graph, settings);
        memory.run(&program).unwrap();
        assert!(memory.gradient("used.weight").unwrap().iter().any(|g| *g != 0.0));
        for name in ["unused.weight", "dead.bias"] {
            assert!(memory.gradient(name).unwrap().iter().all(|g| *g == 0.0), "{name}");
        }
    });
}

#[test]
fn nan_passes_activations_and_pools() {
    on_every_device!(|device| {
        let graph = network("n", 4, labels());
        let settings = Settings::evaluate(4);
        let mut memory = memory_for(device, &[(&graph, settings)]);
        let program = compile(&memory, &graph, settings);
        let mut images = hashed(5, 4 * 6 * 6 * 3);
        images[0] = f32::NAN;
        memory.set_input("x", &images).unwrap();
        memory.run(&program).unwrap();
        assert!(memory.metrics("n.loss").unwrap().loss.is_nan());
        memory.set_input("x", &hashed(5, 4 * 6 * 6 * 3)).unwrap();
        memory.set_classes("labels", &[0, 1, 2, 77]).unwrap();
        memory.run(&program).unwrap();
        assert!(memory.metrics("n.loss").unwrap().loss.is_nan(), "a class out of range gives NaN");
    });
}

/// A convolution with its batch norm in running statistics and what follows; or the folded
/// convolution.
fn normed(options: Conv2d, activation: Activation, residual: bool, folded: bool) -> Graph {
    let mut g = GraphBuilder::new(if folded { "folded" } else { "normed" });
    let x = g.input("x", Shape::new(6, 6, 8)).unwrap();
    let mut y = match folded {
        true => g.folded_conv("f", x, options, activation).unwrap(),
        false => {
            let y = g.conv("c", x, options).unwrap();
            g.batch_norm("bn", y, BatchNorm { activation, ..BatchNorm::plain() }).unwrap()
        }
    };
    if residual {
        y = g.add("sum", x, y, Activation::Relu).unwrap();
    }
    g.output(if folded { "folded.y" } else { "y" }, y).unwrap();
    g.finish().unwrap()
}

#[test]
fn a_folded_convolution_equals_convolution_batch_norm_and_activation() {
    on_every_device!(|device| {
        for options in [Conv2d::new(8, 3).padding(1), Conv2d::new(8, 3).padding(1).groups(8)] {
            for activation in [Activation::None, Activation::Relu, Activation::Relu6] {
                for residual in [false, true] {
                    let settings = Settings::evaluate(4);
                    let [plain, folded] =
                        [false, true].map(|folded| normed(options, activation, residual, folded));
                    let mut memory = memory_for(device, &[(&plain, settings), (&folded, settings)]);
                    let get = |name: &str| memory.parameter(name).unwrap();
                    let (mut w, gamma, mut bias) =
                        (get("c.weight"), get("bn.weight"), get("bn.bias"));
                    let mean = memory.statistic("bn.running_mean").unwrap();
                    let variance = memory.statistic("bn.running_var").unwrap();
                    let filter = w.len() / 8;
                    for channel in 0..8 {
                        let scale = gamma[channel]
                            / (variance[channel] + BatchNorm::plain().epsilon).sqrt();
                        w[channel * filter..][..filter].iter_mut().for_each(|w| *w *= scale);
                        bias[channel] -= mean[channel] * scale;
                    }
                    memory.set_parameter("f.weight", &w).unwrap();
                    memory.set_parameter("f.bias", &bias).unwrap();
                    for graph in [&plain, &folded] {
                        let program = compile(&memory, graph, settings);
                        memory.run(&program).unwrap();
                    }
                    let error = relative_error(
                        &memory.output("folded.y").unwrap(),
                        &memory.output("y").unwrap(),
                    );
                    assert!(
                        error < 1e-5,
                        "{options:?} {activation:?}, residual {residual}: {error:.2e}"
                    );
                }
            }
        }
    });
}

#[test]
fn a_folded_convolution_cannot_be_trained() {
    let mut g = GraphBuilder::new("folded");
    let x = g.input("x", Shape::new(4, 4, 3)).unwrap();
    let y = g.folded_conv("f", x, Conv2d::new(8, 3), Activation::Relu).unwrap();
    let y = g.global_average_pool("pool", y).unwrap();
    g.cross_entropy("loss", y, labels()).unwrap();
    let graph = g.finish().unwrap();
    let device = common::device();
    let layout = layout_of(&device, &[(&graph, Settings::train(2))]);
    let error =
        Program::compile(&device, &graph, &Settings::train(2), &layout).unwrap_err().to_string();
    assert!(error.contains("node `f` has a folded batch norm"), "{error}");
}
