//! Parameter counts, widths, exits and tensor names of the architectures.

use superweight_plan::arch::{ArchName, Architecture, Counts, ImageShape, NodeId, Op, TensorKind};

fn build(name: &str, classes: usize) -> Architecture {
    let name: ArchName = name.parse().unwrap();
    name.build(name.default_input(), classes).unwrap()
}

fn convolutions(arch: &Architecture) -> usize {
    arch.tensors.iter().filter(|t| t.kind == TensorKind::ConvWeight).count()
}

#[test]
fn totals_are_exact() {
    for (name, classes, total) in [
        ("wrn-28-10", 100, 36_536_884),
        ("wrn-28-10", 10, 36_479_194),
        ("wrn-28-1", 100, 375_348),
        ("wrn-16-2", 10, 691_674),
        // Counted by hand: stem 432; stages of 8, 16 and 32 channels 1,904 + 3,632 + 14,432; last
        // batch norm 64; classifier 330.
        ("wrn-10-0.5", 10, 20_794),
        ("wrn-34-8", 100, 29_597_748),
        ("wrn-28-12", 100, 52_587_060),
        ("wrn-50-2", 1000, 68_883_240),
        ("mobilenet-v2", 1000, 3_504_872),
        // Counts of torchvision 0.26: resnet50, resnet101, resnet152, wide_resnet101_2,
        // mobilenet_v2(width_mult=…).
        ("resnet-50", 1000, 25_557_032),
        ("resnet-101", 1000, 44_549_160),
        ("resnet-152", 1000, 60_192_808),
        ("wrn-101-2", 1000, 126_886_696),
        ("mobilenet-v2-0.5", 1000, 1_968_680),
        ("mobilenet-v2-0.75", 1000, 2_636_424),
        ("mobilenet-v2-1.4", 1000, 6_108_776),
        // Counts of the PyTorch model with the options of the authors' CIFAR commands: base 4, step
        // 2, nChannels 16, grFactor 1-2-4, growthRate as here.
        ("msdnet-2-1", 10, 405_945),
        ("msdnet-3-4", 10, 823_582),
        ("msdnet-11-6", 100, 5_597_760),
        ("msdnet-16-12", 100, 18_794_216),
    ] {
        assert_eq!(build(name, classes).counts().total(), total, "{name} with {classes} classes");
    }
}

#[test]
fn wrn_28_10_by_part() {
    let arch = build("wrn-28-10", 100);
    let Counts { convolutions: conv, batch_norm, classifier, multiply_adds, .. } = arch.counts();
    assert_eq!((conv, batch_norm, classifier), (36_454_832, 17_952, 64_100));
    assert_eq!(convolutions(&arch), 28);
    let stage = |inp: u64, out: u64| inp * out * 9 + 7 * out * out * 9 + inp * out;
    let by_hand =
        1024 * (432 + stage(16, 160)) + 256 * stage(160, 320) + 64 * stage(320, 640) + 64_000;
    assert_eq!(multiply_adds, by_hand);
}

#[test]
fn other_widths_make_another_network_of_the_same_family() {
    for (from, to, count) in [
        ("wrn-28-10", "wrn-28-4", 16),
        ("wrn-16-2", "wrn-16-7", 10),
        ("resnet-50", "wrn-50-2", 37),
        ("mobilenet-v2", "mobilenet-v2-0.5", 25),
        ("cnn-16-32", "cnn-1-1", 2),
        ("cnn-16-32-32", "cnn-20-5-8", 3),
        ("mimo-3-wrn-10-2", "mimo-3-wrn-10-7", 7),
        ("msdnet-3-4", "msdnet-3-6", 68),
    ] {
        let [from, to] = [from, to].map(|name| build(name, 10));
        let widths: Vec<usize> = to.widths().iter().map(|width| width.channels).collect();
        assert_eq!((from.widths().len(), widths.len()), (count, count), "{}", from.name);
        let slim: ArchName = from.name.slimmed(widths).to_string().parse().unwrap();
        assert_eq!((slim.heads(), slim.exits()), (to.heads, to.exits.len()));
        let mut slim = slim.build(to.input, 10).unwrap();
        assert_eq!(slim.widths().len(), count);
        slim.name = to.name.clone();
        assert_eq!(slim, to);
    }
}

#[test]
fn values_that_are_added_share_a_width() {
    let arch = build("wrn-10-1", 10);
    let widths = arch.widths();
    let norms = |name: &str| -> Vec<String> {
        let width = widths.iter().find(|width| width.name == name).unwrap();
        width.norms.iter().map(|norm| arch.nodes[norm.0].name.clone()).collect()
    };
    // With one channel everywhere the network has the same widths as with more.
    let name = build("mobilenet-v2-0.5", 10).name.slimmed(vec![1; 25]);
    let widths_of_one = name.build(ImageShape::CIFAR, 10).unwrap().widths();
    assert_eq!(widths_of_one.len(), 25);
    // The first stage has the stem's channels and is added to the stem's output.
    assert_eq!(norms("conv1"), ["block1.layer.0.bn1", "block2.layer.0.bn1"]);
    assert_eq!(norms("block2.layer.0.conv2"), ["block3.layer.0.bn1"]);
    assert_eq!(norms("block3.layer.0.conv2"), ["bn1"]);
    assert_eq!(norms("block3.layer.0.conv1"), ["block3.layer.0.bn2"]);
}

#[test]
fn mimo_changes_only_the_first_and_the_last_layer() {
    let (one, three) = (build("wrn-28-10", 100), build("mimo-3-wrn-28-10", 100));
    assert_eq!((three.heads, three.classes, three.input), (3, 100, one.input));
    assert_eq!(
        (three.nodes[0].shape.channels, three.nodes.last().unwrap().shape.channels),
        (9, 300)
    );
    // Six more input channels for sixteen 3×3 kernels, and two more classifiers.
    assert_eq!(three.counts().total(), one.counts().total() + 6 * 16 * 9 + 2 * 64_100);
    let body = |arch: &Architecture| arch.tensors[1..arch.tensors.len() - 2].to_vec();
    assert_eq!(body(&one), body(&three));
    let name: ArchName = "mimo-16-wrn-10-1".parse().unwrap();
    assert!(name.build(ImageShape::CIFAR, 10_000).is_err(), "160,000 classes");
}

#[test]
fn every_exit_costs_more_than_the_one_before() {
    let arch = build("msdnet-16-12", 100);
    assert_eq!((arch.exits.len(), arch.name.exits()), (16, 16));
    let logits = |exit: &NodeId| {
        arch.nodes[exit.0].shape == ImageShape { channels: 100, height: 1, width: 1 }
    };
    assert!(arch.exits.iter().all(logits));
    let work: Vec<u64> = (0..16).map(|exit| arch.multiply_adds_to(exit)).collect();
    assert!(work.is_sorted_by(|a, b| a < b), "{work:?}");
    assert_eq!(work[15], arch.counts().multiply_adds);
    // The finest resolution is dropped after 12 of 34 layers, the next one after 12 more.
    let sizes = |height| {
        arch.nodes
            .iter()
            .filter(|node| node.op == Op::Concat && node.shape.height == height)
            .count()
    };
    assert_eq!([32, 16, 8].map(sizes), [12, 24, 34]);
    for name in ["wrn-28-10", "mobilenet-v2", "mimo-3-wrn-10-1"] {
        let arch = build(name, 10);
        assert_eq!(arch.exits, [NodeId(arch.nodes.len() - 1)], "{name}");
    }
}

#[test]
fn the_input_shape_changes_only_the_stem() {
    for name in ["wrn-16-2", "resnet-50", "mobilenet-v2", "cnn-4-8", "msdnet-2-4"] {
        let name: ArchName = name.parse().unwrap();
        let one = name.build(ImageShape { channels: 1, height: 28, width: 28 }, 10).unwrap();
        let three = name.build(ImageShape { channels: 3, height: 5, width: 9 }, 10).unwrap();
        let (stem, rest) = one.tensors.split_first().unwrap();
        assert_eq!(rest, &three.tensors[1..]);
        assert_eq!((stem.shape[1], three.tensors[0].shape[1]), (1, 3));
    }
}

#[test]
fn nodes_follow_their_inputs_and_every_tensor_is_used_once() {
    for name in ["wrn-28-10", "wrn-10-1", "wrn-50-2", "mobilenet-v2-0.5", "cnn-4-8-8", "msdnet-5-4"]
    {
        let arch = build(name, 10);
        let mut used = vec![0; arch.tensors.len()];
        for (i, node) in arch.nodes.iter().enumerate() {
            assert!(node.inputs.iter().all(|input| input.0 < i), "{name}: {}", node.name);
            match node.op {
                Op::Conv { weight, .. } => used[weight.0] += 1,
                Op::BatchNorm { scale: a, shift: b, .. } | Op::Linear { weight: a, bias: b } => {
                    used[a.0] += 1;
                    used[b.0] += 1;
                }
                Op::Input
                | Op::Add { .. }
                | Op::Concat
                | Op::MaxPool { .. }
                | Op::GlobalAveragePool => {}
            }
        }
        assert!(used.iter().all(|&n| n == 1), "{name}");
        let mut names: Vec<_> = arch.tensors.iter().map(|t| &t.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), arch.tensors.len(), "{name}: tensor names are unique");
    }
}

#[test]
fn mobilenet_reduces_small_images_less() {
    let last = |input| {
        let arch = "mobilenet-v2".parse::<ArchName>().unwrap().build(input, 10).unwrap();
        arch.nodes.iter().rev().find(|n| matches!(n.op, Op::Conv { .. })).unwrap().shape.height
    };
    assert_eq!((last(ImageShape::CIFAR), last(ImageShape::IMAGENET)), (4, 7));
}

#[test]
fn tensor_names_and_shapes_are_those_of_torchvision() {
    let fixture = include_str!("fixtures/torchvision-parameters.txt");
    for (theirs, ours) in [("wide_resnet50_2", "wrn-50-2"), ("mobilenet_v2", "mobilenet-v2")] {
        let mut lines: Vec<String> = build(ours, 1000)
            .tensors
            .iter()
            .map(|t| {
                let shape: Vec<_> = t.shape.iter().map(|d| d.to_string()).collect();
                format!("{theirs} {} {}", t.name, shape.join(" "))
            })
            .collect();
        lines.sort();
        let expected: Vec<_> = fixture.lines().filter(|l| l.starts_with(theirs)).collect();
        assert_eq!(lines, expected);
    }
}
