//! Single operations, or a few, with every option.

use super::*;

/// Numbers of channels that are multiples of 16 bytes and others, with enough rows for many blocks,
/// and with few.
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
                let name = format!(
                    "batch norm {norm:?} {statistics:?}/{parameters:?} {activation:?} {shape}"
                );
                let mut case = case(&name, batch, shape, |g, x| g.batch_norm("bn", x, options));
                case.settings.norm = norm;
                assert_agreement(&case);
            }
        }
    }
}

/// An activation larger than all shared memory (29 MB on an H200; 33 MB here in f32, and as much in
/// bf16, where input and gradient are kept), so some rows are read twice. One launch, so no
/// segments. Then the first norm of a wide network: in bf16 its blocks need just the 48 KiB that
/// they have by default.
#[test]
fn batch_norm_of_large_activations() {
    let (batch, shape) = (8, Shape::new(256, 256, 16));
    let first = (128, Shape::new(32, 32, 16));
    let mut present = false;
    with_cuda(Precision::F32, |_| present = true);
    // Only with a GPU: the CPU takes seconds.
    if present {
        let relu = BatchNorm::relu();
        for (batch, shape) in [(batch, shape), first] {
            assert_agreement(&case("large norm", batch, shape, |g, x| g.batch_norm("bn", x, relu)));
        }
        assert_agreement(&chained("large norm onto", batch, shape, |g, x| {
            let a = g.channel_scale("a", x, 1)?;
            let b = g.batch_norm("b", x, BatchNorm::plain())?;
            g.add("sum", a, b, Activation::Relu)
        }));
    }
}

/// One launch for statistics and normalisation, with rows and channels of every kind.
#[test]
fn batch_norm_without_segments() {
    for (batch, shape) in shapes() {
        for norm in [NormMode::Train, NormMode::Recalibrate, NormMode::BatchStatistics] {
            let name = format!("batch norm {norm:?} {shape}");
            let mut case =
                case(&name, batch, shape, |g, x| g.batch_norm("bn", x, BatchNorm::relu()));
            case.settings.norm = norm;
            assert_agreement(&case);
        }
    }
}

/// The mean is a thousand standard deviations from zero, where sums of squares would lose all
/// digits.
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
        // x/σ is about 1700, whose last digit is 1e-4 of σ. Neither device can compute y more
        // precisely.
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

/// cuDNN adds the bias where it can (not to a sum, not with ReLU6, not depthwise); otherwise a
/// separate kernel does.
#[test]
fn folded_convolutions() {
    for (batch, shape) in
        [(16, Shape::new(8, 8, 64)), (2, Shape::new(9, 7, 19)), (1, Shape::new(16, 16, 3))]
    {
        let channels = shape.channels;
        let same = Conv2d::new(channels, 3).padding(1);
        for activation in [Activation::None, Activation::Relu, Activation::Relu6] {
            for (options, residual) in [
                (Conv2d::new(32, 3).padding(1), false),
                (Conv2d::new(48, 1).stride(2), false),
                (same.groups(channels), false),
                (same, true),
            ] {
                let name =
                    format!("folded {options:?} {activation:?}, residual {residual}, {shape}");
                let mut g = GraphBuilder::new(name);
                let x = g.input("x", shape).unwrap();
                let mut y = g.folded_conv("f", x, options, activation).unwrap();
                if residual {
                    y = g.add("sum", x, y, Activation::Relu).unwrap();
                }
                g.output("y", y).unwrap();
                assert_agreement(&Case {
                    graph: g.finish().unwrap(),
                    settings: Settings::evaluate(batch),
                    inputs: vec![("x".into(), shape.len())],
                    classes: None,
                    chained: false,
                });
            }
        }
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
        // Accumulates into a sum, forward and backward.
        assert_agreement(&case(&format!("twice {name}"), batch, shape, |g, x| {
            let a = g.conv("a", x, options)?;
            let b = g.conv("b", x, options)?;
            g.add("sum", a, b, Activation::None)
        }));
    }
    for (batch, width, out) in [(128, 640, 100), (5, 7, 3), (1, 1, 1)] {
        assert_agreement(&case("linear", batch, Shape::vector(width), |g, x| {
            g.linear("fc", x, out, true)
        }));
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
