//! MobileNetV2: inverted residual blocks of a 1×1 expansion, a 3×3 depthwise convolution and a 1×1
//! projection without activation.
//!
//! Images of at most 64 pixels get the usual CIFAR variant: the stem and the 24-channel stage have
//! stride 1. Larger images get the ImageNet variant. Tensor names are torchvision's. The classifier
//! has no dropout: it has no parameters, and the recipes here train without it.

use super::builder::{Builder, Window};
use super::image::ImageShape;
use super::name::ArchName;
use super::types::{Activation, Architecture, NodeId};

/// Expansion, output channels, number of blocks, and stride of the first block of each stage.
const STAGES: [(usize, usize, usize, usize); 7] = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
];

/// Builds a network with a width multiplier in hundredths (an integer, so that names compare
/// exactly).
pub(super) fn build(
    name: ArchName,
    input: ImageShape,
    classes: usize,
    percent: usize,
) -> Architecture {
    let small = input.height.max(input.width) <= 64;
    let (mut b, image) = Builder::new(name, input);
    let stem = Window::new(3, if small { 1 } else { 2 });
    let x = b.conv("features.0.0", image, scaled(32, percent), stem);
    let mut x = b.batch_norm("features.0.1", x, Activation::Relu6);
    let mut index = 1;
    for (expansion, channels, blocks, stride) in STAGES {
        for block in 0..blocks {
            let stride = if block > 0 || (small && channels == 24) { 1 } else { stride };
            let path = format!("features.{index}.conv");
            x = inverted_residual(&mut b, &path, x, scaled(channels, percent), expansion, stride);
            index += 1;
        }
    }
    let x = b.conv(
        &format!("features.{index}.0"),
        x,
        scaled(1280, percent.max(100)),
        Window::new(1, 1),
    );
    let x = b.batch_norm(&format!("features.{index}.1"), x, Activation::Relu6);
    let logits = b.exit("pool", "classifier.1", x, classes);
    b.finish(vec![logits], classes)
}

/// Appends one inverted residual block.
fn inverted_residual(
    b: &mut Builder,
    path: &str,
    x: NodeId,
    out: usize,
    expansion: usize,
    stride: usize,
) -> NodeId {
    let hidden = b.channels(x) * expansion;
    let (mut h, mut i) = (x, 0);
    if expansion != 1 {
        h = b.conv(&format!("{path}.{i}.0"), h, hidden, Window::new(1, 1));
        h = b.batch_norm(&format!("{path}.{i}.1"), h, Activation::Relu6);
        i += 1;
    }
    h = b.conv(&format!("{path}.{i}.0"), h, hidden, Window::new(3, stride).groups(hidden));
    h = b.batch_norm(&format!("{path}.{i}.1"), h, Activation::Relu6);
    h = b.conv(&format!("{path}.{}", i + 1), h, out, Window::new(1, 1));
    h = b.batch_norm(&format!("{path}.{}", i + 2), h, Activation::None);
    if stride == 1 && b.channels(x) == out {
        let block = path.strip_suffix(".conv").unwrap_or(path);
        h = b.add(&format!("{block}.add"), x, h, Activation::None);
    }
    h
}

/// Scales a channel count and rounds it to a multiple of 8, never more than 10% down.
fn scaled(channels: usize, percent: usize) -> usize {
    let exact = channels * percent; // hundredths
    let rounded = ((exact + 400) / 800 * 8).max(8);
    if rounded * 1000 < exact * 9 { rounded + 8 } else { rounded }
}
