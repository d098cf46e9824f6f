//! Checks that wrong descriptions, settings and data give errors that name the node and shapes, and
//! never panic.

mod common;

use common::{Bench, device, layout_of, on_every_device};
use superweight_engine::{
    Activation, BatchNorm, Conv2d, CrossEntropy, Error, GraphBuilder, LayoutBuilder, Memory,
    NodeId, ParameterGroup, Pool2d, Program, Scope, Settings, Sgd, SgdOptions, Shape,
};

fn message(build: impl FnOnce(&mut GraphBuilder, NodeId) -> Result<NodeId, Error>) -> String {
    let mut g = GraphBuilder::new("net");
    let x = g.input("x", Shape::new(5, 4, 6)).unwrap();
    build(&mut g, x).unwrap_err().to_string()
}

#[test]
fn shape_errors_name_node_and_shapes() {
    for (expected, got) in [
        (
            "node `c`: a 7×7 window does not fit into the 5×4×6 input padded by 1×1",
            message(|g, x| g.conv("c", x, Conv2d::new(4, 7).padding(1))),
        ),
        (
            "node `c`: 4 groups do not divide 6 input and 8 output channels",
            message(|g, x| g.conv("c", x, Conv2d::new(8, 3).groups(4))),
        ),
        (
            "node `c`: the stride is zero",
            message(|g, x| g.conv("c", x, Conv2d::new(8, 3).stride(0))),
        ),
        (
            "node `c`: the number of groups is zero",
            message(|g, x| g.conv("c", x, Conv2d::new(8, 3).groups(0))),
        ),
        (
            "node `c`: the number of output channels is zero",
            message(|g, x| g.conv("c", x, Conv2d::new(0, 3))),
        ),
        (
            "tensor `fc.weight` of dimensions [1048576, 3145728] is too large to address",
            message(|g, _| {
                let x = g.input("wide", Shape::vector(1 << 20)).unwrap();
                let x = g.concat("wider", &[x, x, x]).unwrap();
                g.linear("fc", x, 1 << 20, false)
            }),
        ),
        (
            "node `vast`: a batch of 1 images of 1048576×1048576×1048576 is too large to address",
            message(|g, _| g.input("vast", Shape::new(1 << 20, 1 << 20, 1 << 20))),
        ),
        ("node `c`: the kernel is zero", message(|g, x| g.conv("c", x, Conv2d::new(8, 0)))),
        (
            "node `c`: the padding is 18446744000000000000, which must be at most 1048576",
            message(|g, x| g.conv("c", x, Conv2d::new(8, 3).padding(usize::MAX))),
        ),
        (
            "node `fc` (linear): needs a 1×1 input, got 5×4×6; pool it first",
            message(|g, x| g.linear("fc", x, 10, true)),
        ),
        (
            "node `sum` (add): inputs of shape 5×4×6 and 3×2×4 do not match",
            message(|g, x| {
                let y = g.conv("c", x, Conv2d::new(4, 3)).unwrap();
                g.add("sum", x, y, Activation::None)
            }),
        ),
        (
            "node `cat` (concat): inputs of shape 5×4×6 and 3×2×4 do not match",
            message(|g, x| {
                let y = g.conv("c", x, Conv2d::new(4, 3)).unwrap();
                g.concat("cat", &[x, y])
            }),
        ),
        ("node `cat` (concat): no inputs", message(|g, _| g.concat("cat", &[]))),
        (
            "node `p`: padding 2×2 is more than half of the 3×3 window",
            message(|g, x| g.pool("p", x, Pool2d::max(3, 1, 2))),
        ),
        (
            "node `loss`: label smoothing is 1.5, which must be between 0 and 1",
            message(|g, x| {
                let x = g.global_average_pool("pool", x).unwrap();
                g.cross_entropy("loss", x, CrossEntropy::classes("labels").smoothing(1.5))
            }),
        ),
        (
            "node `loss`: the number of heads is 4, which must be a divisor of the logits",
            message(|g, x| {
                let x = g.global_average_pool("pool", x).unwrap();
                g.cross_entropy("loss", x, CrossEntropy::classes("labels").heads(4))
            }),
        ),
        (
            "node `bn`: epsilon is 0, which must be positive",
            message(|g, x| g.batch_norm("bn", x, BatchNorm { epsilon: 0.0, ..BatchNorm::plain() })),
        ),
        (
            "the name `x` is used twice in graph `net`",
            message(|g, _| g.input("x", Shape::vector(3))),
        ),
        ("node `y`: the height is zero", message(|g, _| g.input("y", Shape::new(0, 3, 3)))),
        (
            "node `late`: its input is not a node of this graph",
            message(|g, x| {
                let x = g.global_average_pool("pool", x).unwrap();
                let loss = g.cross_entropy("loss", x, CrossEntropy::classes("labels")).unwrap();
                g.activation("late", loss, Activation::Relu)
            }),
        ),
    ] {
        assert_eq!(got, expected);
    }
}

fn small() -> superweight_engine::Graph {
    let mut g = GraphBuilder::new("net");
    let x = g.input("x", Shape::vector(3)).unwrap();
    let x = g
        .batch_norm("bn", x, BatchNorm::plain().segmented(2, Scope::Segment, Scope::Joint))
        .unwrap();
    let z = g.linear("fc", x, 4, true).unwrap();
    g.cross_entropy("loss", z, CrossEntropy::classes("labels")).unwrap();
    g.finish().unwrap()
}

fn compile_error(settings: Settings) -> String {
    let graph = small();
    let layout = layout_of(&device(), &[(&graph, settings)]);
    Program::compile(&device(), &graph, &settings, &layout).unwrap_err().to_string()
}

#[test]
fn impossible_batches_are_rejected() {
    assert_eq!(compile_error(Settings::train(0)), "graph `net`: the batch is zero");
    assert_eq!(
        compile_error(Settings::train(5)),
        "node `bn`: a batch of 5 does not split into 2 equal segments"
    );
    assert_eq!(
        compile_error(Settings::train(2)),
        "node `bn`: batch statistics over one value per channel (1×1×3, 1 image per segment); a variance needs two: use larger images or a larger batch"
    );
    assert!(compile_error(Settings::train(1 << 50)).contains("too large to address"));
}

#[test]
fn a_graph_needs_something_to_compute() {
    let mut g = GraphBuilder::new("empty");
    let x = g.input("x", Shape::vector(3)).unwrap();
    assert_eq!(
        g.output("y", x).unwrap_err().to_string(),
        "graph `empty`: `y` is an input; it cannot be an output"
    );
    assert_eq!(
        g.finish().unwrap_err().to_string(),
        "graph `empty` has neither a loss nor an output"
    );

    let mut g = GraphBuilder::new("forward");
    let x = g.input("x", Shape::vector(3)).unwrap();
    let y = g.linear("fc", x, 4, true).unwrap();
    g.output("y", y).unwrap();
    let graph = g.finish().unwrap();
    let layout = layout_of(&device(), &[(&graph, Settings::train(2))]);
    let error = Program::compile(&device(), &graph, &Settings::train(2), &layout).unwrap_err();
    assert_eq!(error, Error::NoLoss { graph: "forward".into() });
}

#[test]
fn data_of_the_wrong_size_is_rejected() {
    on_every_device!(|device| {
        let mut bench = Bench::new(device, small(), Settings::train(4));
        let memory = &mut bench.memory;
        let wrong = |name: &str, expected, got| {
            Err(Error::WrongLength { name: name.into(), expected, got })
        };
        assert_eq!(memory.set_parameter("fc.weight", &[0.0; 11]), wrong("fc.weight", 12, 11));
        assert_eq!(
            memory.set_statistic("bn.running_mean", &[0.0; 2]),
            wrong("bn.running_mean", 3, 2)
        );
        assert_eq!(memory.set_input("x", &[0.0; 13]), wrong("x", 12, 13));
        assert_eq!(memory.set_classes("labels", &[0; 5]), wrong("labels", 4, 5));
        assert!(memory.set_input("labels", &[0.0; 4]).is_err(), "classes are not activations");
        let unknown = Err(Error::UnknownTensor { space: "parameter", name: "fc.wait".into() });
        assert_eq!(memory.set_parameter("fc.wait", &[]), unknown);
        assert!(memory.metrics("x").is_err());
    });
}

#[test]
fn mismatched_layouts_memories_and_programs_are_rejected() {
    on_every_device!(|device| {
        let graph = small();
        let (small_batch, large_batch) = (Settings::train(4), Settings::train(8));
        let layout = layout_of(device, &[(&graph, small_batch)]);
        let error = Program::compile(device, &graph, &large_batch, &layout).unwrap_err();
        assert_eq!(error, Error::LayoutTooSmall { name: "x".into(), needed: 24, placed: 12 });

        let program = Program::compile(device, &graph, &small_batch, &layout).unwrap();
        let mut starved = Memory::new(device, layout.clone(), 16).unwrap();
        assert!(matches!(starved.run(&program), Err(Error::MemoryTooSmall { have: 16, .. })));
        let other = layout_of(device, &[(&graph, large_batch)]);
        let mut other = Memory::new(device, other, 1 << 20).unwrap();
        assert_eq!(other.run(&program), Err(Error::LayoutMismatch { graph: "net".into() }));

        let mut wider = GraphBuilder::new("wider");
        let x = wider.input("x", Shape::vector(5)).unwrap();
        let z = wider.linear("fc", x, 4, true).unwrap();
        wider.output("z", z).unwrap();
        let wider = wider.finish().unwrap();
        let mut builder = LayoutBuilder::new();
        builder.graph(&graph, &small_batch).unwrap();
        let error = builder.graph(&wider, &small_batch).unwrap_err().to_string();
        assert_eq!(
            error,
            "parameter tensor `fc.weight` has 12 values in one graph and 20 in another"
        );
    });
}

#[test]
fn a_storage_that_does_not_fit_is_an_error() {
    let layout = LayoutBuilder::new().parameter("bank", 1 << 60).unwrap().finish(&device());
    let error = Memory::new(&device(), layout, 0).unwrap_err().to_string();
    let expected = "4611686018.4 GB do not fit into memory: use a smaller batch or network";
    assert_eq!(error, expected);
}

#[test]
fn parameter_groups_must_be_disjoint_and_inside() {
    on_every_device!(|device| {
        let bench = Bench::new(device, small(), Settings::train(4));
        let len = bench.memory.layout().parameter_len;
        let options = SgdOptions { momentum: 0.9, nesterov: true };
        let group = |range| ParameterGroup::new(range, 0.0);
        let error = |groups| Sgd::new(&bench.memory, options, groups).unwrap_err().to_string();
        assert!(error(vec![group(0..len + 1)]).contains("are outside the parameter storage"));
        assert!(error(vec![group(0..9), group(8..10)]).contains("already belong to a group"));
        let memory = bench.memory;
        let mut optimizer = Sgd::new(&memory, options, vec![group(0..9)]).unwrap();
        assert_eq!(optimizer.set_lrs(&[]), Err(Error::LearningRates { groups: 1, lrs: 0 }));
    });
}
