//! Compares the gradients of every operation and option with finite differences: odd sizes, one
//! channel, strides, batch 1.

mod common;

use common::{Check, hash};
use superweight_engine::{
    Activation, BatchNorm, Conv2d, CrossEntropy, Graph, GraphBuilder, NodeId, NormMode, Pool2d,
    Scope, Shape,
};

/// A graph of one operation on `x`, with output `y` and external gradient `r`.
fn single(
    name: &str,
    shape: Shape,
    op: impl FnOnce(&mut GraphBuilder, NodeId) -> NodeId,
) -> (Graph, usize) {
    let mut g = GraphBuilder::new(name);
    let x = g.input("x", shape).unwrap();
    let y = op(&mut g, x);
    let len = g.shape(y).len();
    g.output("y", y).unwrap();
    g.external_gradient("r", y, 1.0).unwrap();
    (g.finish().unwrap(), len)
}

fn check(
    name: &str,
    batch: usize,
    shape: Shape,
    op: impl FnOnce(&mut GraphBuilder, NodeId) -> NodeId,
) -> Check<'static> {
    let (graph, len) = single(name, shape, op);
    Check::new(graph, batch, ("x", shape.len())).on_output(len)
}

#[test]
fn convolution() {
    let rectangular =
        Conv2d { kernel: [1, 3], stride: [2, 1], padding: [0, 2], ..Conv2d::new(3, 1) };
    for (batch, shape, options) in [
        (2, Shape::new(5, 7, 3), Conv2d::new(4, 3).padding(1)),
        (1, Shape::new(9, 5, 1), Conv2d::new(1, 3).stride(2)),
        (3, Shape::new(4, 4, 5), Conv2d::new(7, 1)),
        (2, Shape::new(7, 7, 6), Conv2d::new(5, 1).stride(2)),
        (2, Shape::new(6, 5, 4), Conv2d::new(6, 3).padding(1).groups(2)),
        (2, Shape::new(6, 5, 4), Conv2d::new(4, 3).stride(2).padding(1).groups(4)),
        (1, Shape::new(7, 6, 3), Conv2d::new(6, 5).padding(2).stride(3).groups(3)),
        (2, Shape::new(5, 4, 2), rectangular),
        (1, Shape::new(3, 3, 2), Conv2d::new(2, 3)),
    ] {
        check(&format!("{options:?}"), batch, shape, |g, x| g.conv("conv", x, options).unwrap())
            .run_everywhere();
    }
}

#[test]
fn linear() {
    for (batch, width, out, bias) in [(1, 1, 1, true), (5, 7, 3, true), (4, 33, 17, false)] {
        check("linear", batch, Shape::vector(width), |g, x| g.linear("fc", x, out, bias).unwrap())
            .run_everywhere();
    }
}

const SCOPES: [(Scope, Scope); 4] = [
    (Scope::Joint, Scope::Joint),
    (Scope::Segment, Scope::Joint),
    (Scope::Segment, Scope::Segment),
    (Scope::Joint, Scope::Segment),
];

#[test]
fn batch_norm_in_every_mode_scope_and_activation() {
    for norm in [NormMode::Train, NormMode::Eval] {
        for (statistics, parameters) in SCOPES {
            for activation in [Activation::None, Activation::Relu, Activation::Relu6] {
                for (batch, segments, shape) in
                    [(4, 2, Shape::new(5, 3, 6)), (3, 3, Shape::new(7, 4, 1))]
                {
                    let options = BatchNorm { activation, ..BatchNorm::plain() };
                    let options = options.segmented(segments, statistics, parameters);
                    let name = format!("{norm:?} {options:?}");
                    let mut check =
                        check(&name, batch, shape, |g, x| g.batch_norm("bn", x, options).unwrap());
                    check.norm = norm;
                    // A step across a kink changes the slope.
                    check.tolerance = if activation == Activation::None { 5e-3 } else { 2e-2 };
                    check.run_everywhere();
                }
            }
        }
    }
}

#[test]
fn batch_norm_over_many_tasks() {
    let shape = Shape::new(13, 11, 19);
    let mut check =
        check("many tasks", 6, shape, |g, x| g.batch_norm("bn", x, BatchNorm::plain()).unwrap());
    check.steps = vec![3e-2];
    check.run_everywhere();
}

#[test]
fn channel_scale() {
    for (batch, segments, shape) in
        [(4, 2, Shape::new(3, 5, 7)), (3, 3, Shape::vector(1)), (1, 1, Shape::new(2, 2, 3))]
    {
        check("scale", batch, shape, |g, x| g.channel_scale("r1", x, segments).unwrap())
            .run_everywhere();
    }
}

#[test]
fn activation() {
    for activation in [Activation::Relu, Activation::Relu6] {
        let mut check = check("activation", 2, Shape::new(3, 5, 4), |g, x| {
            g.activation("act", x, activation).unwrap()
        });
        check.tolerance = 2e-2;
        check.run_everywhere();
    }
}

#[test]
fn add_of_plain_nodes_and_of_a_node_with_itself() {
    for activation in [Activation::None, Activation::Relu, Activation::Relu6] {
        let add = |g: &mut GraphBuilder, x| {
            let a = g.channel_scale("a", x, 1).unwrap();
            let b = g.channel_scale("b", x, 1).unwrap();
            let sum = g.add("sum", a, b, activation).unwrap();
            g.add("twice", sum, sum, Activation::None).unwrap()
        };
        let mut check = check("add", 3, Shape::new(3, 2, 5), add);
        check.tolerance = 2e-2;
        check.run_everywhere();
    }
}

/// Convolution and batch norm accumulate into the sum, whether or not the other input is needed
/// later.
#[test]
fn add_that_is_accumulated_into() {
    for activation in [Activation::None, Activation::Relu] {
        for needed_later in [false, true] {
            for norm_last in [false, true] {
                let add = |g: &mut GraphBuilder, x| {
                    let trunk = g.conv("trunk", x, Conv2d::new(4, 1)).unwrap();
                    let branch = g.conv("branch", x, Conv2d::new(4, 3).padding(1)).unwrap();
                    let last = match norm_last {
                        true => g.batch_norm("bn", branch, BatchNorm::plain()).unwrap(),
                        false => branch,
                    };
                    let sum = g.add("sum", trunk, last, activation).unwrap();
                    match needed_later {
                        true => g.add("again", sum, trunk, Activation::None).unwrap(),
                        false => g.channel_scale("out", sum, 1).unwrap(),
                    }
                };
                let mut check = check("accumulate", 2, Shape::new(5, 3, 3), add);
                check.steps = vec![2e-3];
                check.tolerance = 2e-2;
                check.run_everywhere();
            }
        }
    }
}

/// The shared gradient of an add is copied before a third contribution changes it.
#[test]
fn gradient_shared_by_three() {
    let ladder = |g: &mut GraphBuilder, x| {
        let a = g.channel_scale("a", x, 1).unwrap();
        let b = g.channel_scale("b", a, 1).unwrap();
        let first = g.add("first", a, b, Activation::None).unwrap();
        let second = g.add("second", b, first, Activation::None).unwrap();
        g.add("third", second, a, Activation::None).unwrap()
    };
    check("ladder", 2, Shape::new(2, 3, 4), ladder).run_everywhere();
}

#[test]
fn concat() {
    let concat = |g: &mut GraphBuilder, x| {
        let a = g.conv("a", x, Conv2d::new(3, 1)).unwrap();
        let b = g.conv("b", x, Conv2d::new(1, 1)).unwrap();
        let ab = g.concat("ab", &[a, b, a]).unwrap();
        g.concat("abx", &[ab, x]).unwrap()
    };
    check("concat", 2, Shape::new(3, 5, 2), concat).run_everywhere();
}

#[test]
fn pooling() {
    for (batch, shape, options) in [
        (2, Shape::new(6, 7, 3), Pool2d::max(2, 2, 0)),
        (1, Shape::new(7, 5, 1), Pool2d::max(3, 2, 1)),
        (2, Shape::new(6, 7, 3), Pool2d::average(2, 2, 0)),
        (1, Shape::new(7, 5, 1), Pool2d::average(3, 2, 1)),
        (2, Shape::new(5, 5, 17), Pool2d::average(3, 1, 1)),
    ] {
        let name = format!("{options:?}");
        let pool = |g: &mut GraphBuilder, x| g.pool("pool", x, options).unwrap();
        let mut check = check(&name, batch, shape, pool);
        check.steps = vec![1e-3];
        check.tolerance = 1e-2;
        check.run_everywhere();
    }
    let pool = |g: &mut GraphBuilder, x| g.global_average_pool("pool", x).unwrap();
    check("global", 3, Shape::new(5, 3, 7), pool).run_everywhere();
}

#[test]
fn softmax() {
    check("softmax", 3, Shape::vector(7), |g, x| g.softmax("p", x).unwrap()).run_everywhere();
}

#[test]
fn cross_entropy_with_classes_probabilities_smoothing_and_weights() {
    for smoothing in [0.0, 0.1] {
        let mut g = GraphBuilder::new(format!("loss {smoothing}"));
        let x = g.input("x", Shape::vector(6)).unwrap();
        let z = g.linear("fc", x, 5, true).unwrap();
        g.cross_entropy("hard", z, CrossEntropy::classes("labels").smoothing(smoothing)).unwrap();
        let soft = CrossEntropy::probabilities("teacher").smoothing(smoothing).weight(-0.7);
        g.cross_entropy("soft", z, soft).unwrap();
        let mut check = Check::new(g.finish().unwrap(), 4, ("x", 6));
        check.classes = vec![("labels", 5)];
        check.probabilities = vec![("teacher", 5)];
        check.losses = vec![("hard", 1.0), ("soft", -0.7)];
        check.steps = vec![3e-2];
        check.run_everywhere();
    }
}

#[test]
fn several_external_gradients_with_weights() {
    let mut g = GraphBuilder::new("external");
    let x = g.input("x", Shape::vector(4)).unwrap();
    let a = g.linear("a", x, 3, false).unwrap();
    let b = g.linear("b", a, 2, false).unwrap();
    g.output("ya", a).unwrap();
    g.output("yb", b).unwrap();
    g.external_gradient("ra", a, 2.0).unwrap();
    g.external_gradient("rb", b, -0.5).unwrap();
    let mut check = Check::new(g.finish().unwrap(), 3, ("x", 4));
    check.external = vec![("ya", "ra", 2.0, 3), ("yb", "rb", -0.5, 2)];
    check.run_everywhere();
}

/// Random shapes: sizes 1 to 9, channels 1 to 20, batch 1 to 3, and every option that a shape
/// allows.
#[test]
fn random_shapes() {
    for seed in 0..60 {
        let pick = |n: u32, from: usize, to: usize| {
            from + ((hash(seed, n) + 1.0) / 2.0 * (to - from) as f32) as usize
        };
        let batch = pick(0, 1, 4);
        let shape = Shape::new(pick(1, 1, 10), pick(2, 1, 10), pick(3, 1, 21));
        let groups = if pick(4, 0, 3) == 0 { shape.channels } else { 1 };
        let padding = [pick(5, 0, 3), pick(6, 0, 3)];
        let conv = Conv2d {
            out_channels: groups * pick(7, 1, if groups > 1 { 3 } else { 20 }),
            kernel: [
                pick(8, 1, 6).min(shape.height + 2 * padding[0]),
                pick(9, 1, 6).min(shape.width + 2 * padding[1]),
            ],
            stride: [pick(10, 1, 4), pick(11, 1, 4)],
            padding,
            groups,
        };
        let name = format!("seed {seed}: batch {batch}, {shape}, {conv:?}");
        check(&name, batch, shape, |g, x| g.conv("conv", x, conv).unwrap()).run_everywhere();

        let name = format!("seed {seed}: batch {batch}, {shape}");
        check(&name, batch, shape, |g, x| g.channel_scale("r1", x, batch).unwrap())
            .run_everywhere();
        let flat = Shape::vector(shape.channels);
        check(&name, batch, flat, |g, x| g.linear("fc", x, pick(12, 1, 9), true).unwrap())
            .run_everywhere();
        let window = pick(13, 1, 4).min(shape.height).min(shape.width);
        let pool = Pool2d::average(window, pick(14, 1, 4), window / 2);
        check(&name, batch, shape, |g, x| g.pool("pool", x, pool).unwrap()).run_everywhere();
        check(&name, batch, shape, |g, x| g.global_average_pool("pool", x).unwrap())
            .run_everywhere();
        check(&name, batch, shape, |g, x| g.concat("xx", &[x, x]).unwrap()).run_everywhere();

        // Statistics over few values are too curved for finite differences, so this uses more
        // values.
        let shape = Shape::new(shape.height + 3, shape.width + 3, shape.channels);
        let mut norm = check(&name, batch + 1, shape, |g, x| {
            g.batch_norm("bn", x, BatchNorm::plain()).unwrap()
        });
        norm.tolerance = 1e-2;
        norm.run_everywhere();
    }
}
