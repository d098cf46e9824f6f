//! Compares every operation with PyTorch 2.11 (`fixtures/make.py`): relative L2 error below 1e-4
//! per tensor.

mod common;

use common::{Bench, Fixtures, hashed, name_seed, on_every_device};
use superweight_engine::{
    Activation, BatchNorm, Conv2d, CrossEntropy, Device, GraphBuilder, LayoutBuilder, Memory,
    NodeId, NormMode, ParameterGroup, Pool2d, Scope, Settings, Sgd, SgdOptions, Shape,
};

fn fixtures() -> Fixtures {
    Fixtures::parse(include_str!("fixtures/ops.txt"), include_bytes!("fixtures/ops.bin"))
}

/// Runs one operation forward and backward on every device, and compares every tensor of the
/// fixture.
fn compare(
    case: &str,
    settings: Settings,
    shape: Shape,
    op: impl Fn(&mut GraphBuilder, NodeId) -> NodeId,
) {
    on_every_device!(|device| { compare_on(device, case, settings, shape, &op) });
}

fn compare_on<D: Device>(
    device: &D,
    case: &str,
    settings: Settings,
    shape: Shape,
    op: &impl Fn(&mut GraphBuilder, NodeId) -> NodeId,
) {
    let mut g = GraphBuilder::new(case);
    let x = g.input("x", shape).unwrap();
    let y = op(&mut g, x);
    let len = g.shape(y).len();
    g.output("y", y).unwrap();
    g.external_gradient("r", y, 1.0).unwrap();
    let settings = Settings { input_gradients: true, ..settings };
    let mut bench = Bench::new(device, g.finish().unwrap(), settings);
    let memory = &mut bench.memory;
    memory.set_input("x", &hashed(name_seed("x"), settings.batch * shape.len())).unwrap();
    memory.set_input("r", &hashed(name_seed("r"), settings.batch * len)).unwrap();
    bench.run();
    let fixtures = fixtures();
    let tensors = fixtures.tensors(case);
    assert!(!tensors.is_empty(), "no fixture for {case}");
    for tensor in tensors {
        let ours = match tensor {
            "y" | "x.gradient" => bench.memory.output(tensor),
            _ if tensor.contains("running") => bench.memory.statistic(tensor),
            _ => bench.memory.gradient(tensor),
        };
        fixtures.assert_close(case, tensor, &ours.unwrap());
    }
}

#[test]
fn convolution() {
    let rectangular =
        Conv2d { kernel: [1, 3], stride: [2, 1], padding: [0, 2], ..Conv2d::new(3, 1) };
    for (case, batch, shape, options) in [
        ("conv_3x3", 2, Shape::new(5, 7, 3), Conv2d::new(4, 3).padding(1)),
        ("conv_strided", 1, Shape::new(9, 5, 1), Conv2d::new(1, 3).stride(2)),
        ("conv_1x1", 3, Shape::new(4, 4, 5), Conv2d::new(7, 1)),
        ("conv_grouped", 2, Shape::new(6, 5, 4), Conv2d::new(6, 3).padding(1).groups(2)),
        (
            "conv_depthwise",
            2,
            Shape::new(6, 5, 4),
            Conv2d::new(4, 3).stride(2).padding(1).groups(4),
        ),
        ("conv_rectangular", 2, Shape::new(5, 4, 2), rectangular),
    ] {
        compare(case, Settings::train(batch), shape, |g, x| g.conv("conv", x, options).unwrap());
    }
}

#[test]
fn linear() {
    let linear = |g: &mut GraphBuilder, x| g.linear("fc", x, 3, true).unwrap();
    compare("linear", Settings::train(5), Shape::vector(7), linear);
}

#[test]
fn batch_norm() {
    let shape = Shape::new(3, 5, 6);
    let run = |case: &str, norm: NormMode, options: BatchNorm| {
        let settings = Settings { norm, ..Settings::train(4) };
        compare(case, settings, shape, |g, x| g.batch_norm("bn", x, options).unwrap());
    };
    let activations =
        [("none", BatchNorm::plain()), ("relu", BatchNorm::relu()), ("relu6", BatchNorm::relu6())];
    for (name, options) in activations {
        run(&format!("norm_train_{name}"), NormMode::Train, options);
        run(&format!("norm_eval_{name}"), NormMode::Eval, options);
    }
    let relu = BatchNorm::relu();
    run("norm_ghost", NormMode::Train, relu.segmented(2, Scope::Segment, Scope::Joint));
    run("norm_ensemble", NormMode::Train, relu.segmented(2, Scope::Segment, Scope::Segment));
    run("norm_joint_segment", NormMode::Train, relu.segmented(2, Scope::Joint, Scope::Segment));
    let plain = BatchNorm::plain();
    run("norm_ensemble_eval", NormMode::Eval, plain.segmented(2, Scope::Segment, Scope::Segment));
}

#[test]
fn channel_scale() {
    let scale = |g: &mut GraphBuilder, x| g.channel_scale("scale", x, 2).unwrap();
    compare("channel_scale", Settings::train(4), Shape::new(3, 2, 5), scale);
}

#[test]
fn add() {
    for (case, activation) in [
        ("add_none", Activation::None),
        ("add_relu", Activation::Relu),
        ("add_relu6", Activation::Relu6),
    ] {
        compare(case, Settings::train(2), Shape::new(3, 5, 4), |g, x| {
            let scaled = g.channel_scale("scale", x, 1).unwrap();
            g.add("sum", x, scaled, activation).unwrap()
        });
    }
}

#[test]
fn concat() {
    compare("concat", Settings::train(2), Shape::new(3, 5, 2), |g, x| {
        let conv = g.conv("conv", x, Conv2d::new(3, 1)).unwrap();
        g.concat("both", &[conv, x]).unwrap()
    });
}

#[test]
fn pooling() {
    let (settings, shape) = (Settings::train(2), Shape::new(7, 6, 3));
    for (case, options) in [
        ("max_pool", Pool2d::max(3, 2, 1)),
        ("max_pool_even", Pool2d::max(2, 2, 0)),
        ("average_pool", Pool2d::average(3, 2, 1)),
        ("average_pool_even", Pool2d::average(2, 2, 0)),
    ] {
        compare(case, settings, shape, |g, x| g.pool("pool", x, options).unwrap());
    }
    compare("global_pool", settings, shape, |g, x| g.global_average_pool("pool", x).unwrap());
}

#[test]
fn softmax() {
    let softmax = |g: &mut GraphBuilder, x| g.softmax("p", x).unwrap();
    compare("softmax", Settings::train(3), Shape::vector(7), softmax);
}

#[test]
fn cross_entropy() {
    on_every_device!(|device| {
        let fixtures = fixtures();
        for (case, options) in [
            ("loss_classes_0.0", CrossEntropy::classes("t")),
            ("loss_classes_0.1", CrossEntropy::classes("t").smoothing(0.1)),
            ("loss_probabilities_0.0", CrossEntropy::probabilities("t")),
            ("loss_probabilities_0.1", CrossEntropy::probabilities("t").smoothing(0.1)),
        ] {
            let mut g = GraphBuilder::new(case);
            let x = g.input("x", Shape::vector(6)).unwrap();
            let classes = matches!(options.target, superweight_engine::Target::Classes(_));
            g.cross_entropy("loss", x, options).unwrap();
            let settings = Settings { input_gradients: true, ..Settings::train(4) };
            let mut bench = Bench::new(device, g.finish().unwrap(), settings);
            bench.memory.set_input("x", &hashed(name_seed("x"), 24)).unwrap();
            match classes {
                true => bench.memory.set_classes("t", &[3, 4, 5, 0]).unwrap(),
                false => bench.memory.set_input("t", fixtures.get(case, "teacher")).unwrap(),
            }
            bench.run();
            fixtures.assert_close(case, "loss", &[bench.memory.metrics("loss").unwrap().loss]);
            fixtures.assert_close(case, "x.gradient", &bench.memory.output("x.gradient").unwrap());
        }
    });
}

#[test]
fn sgd() {
    on_every_device!(|device| {
        let fixtures = fixtures();
        for (case, momentum, nesterov, decay) in [
            ("sgd_plain", 0.0, false, 0.0),
            ("sgd_decay", 0.0, false, 0.1),
            ("sgd_momentum", 0.9, false, 0.01),
            ("sgd_nesterov", 0.9, true, 0.01),
        ] {
            // Two weights with external gradients: y = x·pᵀ with x = 1 and dL/dy = the given
            // gradient.
            let mut g = GraphBuilder::new(case);
            let x = g.input("x", Shape::vector(1)).unwrap();
            for (name, len) in [("p", 50), ("q", 20)] {
                let y = g.linear(name, x, len, false).unwrap();
                g.external_gradient(format!("d{name}"), y, 1.0).unwrap();
            }
            let mut bench = Bench::new(device, g.finish().unwrap(), Settings::train(1));
            let memory = &mut bench.memory;
            memory.set_input("x", &[1.0]).unwrap();
            let mut groups = Vec::new();
            for (name, len, decay) in [("p", 50, decay), ("q", 20, 0.0)] {
                let tensor = format!("{name}.weight");
                memory.set_parameter(&tensor, &hashed(name_seed(name), len)).unwrap();
                let start = memory.layout().parameter(&tensor).unwrap().offset;
                groups.push(ParameterGroup::new(start..start + len, decay));
            }
            let mut optimizer =
                Sgd::new(memory, SgdOptions { momentum, nesterov }, groups).unwrap();
            for step in 0..3 {
                for (name, len) in [("p", 50), ("q", 20)] {
                    let gradient = hashed(name_seed(&format!("d{name}{step}")), len);
                    memory.set_input(&format!("d{name}"), &gradient).unwrap();
                }
                memory.run(&bench.program).unwrap();
                optimizer.set_lrs(&[0.1, 0.02]).unwrap();
                optimizer.step(memory);
            }
            fixtures.assert_close(case, "p", &memory.parameter("p.weight").unwrap());
            fixtures.assert_close(case, "q", &memory.parameter("q.weight").unwrap());
        }
    });
}

/// Banks that no graph reads are in the same storage.
#[test]
fn parameters_without_a_graph() {
    on_every_device!(|device| {
        let mut layout = LayoutBuilder::new();
        layout.parameter("bank", 100).unwrap();
        let mut memory = Memory::new(device, layout.finish(device), 0).unwrap();
        memory.set_parameter("bank", &[1.0; 100]).unwrap();
        assert_eq!(memory.parameter("bank").unwrap(), [1.0; 100]);
    });
}
