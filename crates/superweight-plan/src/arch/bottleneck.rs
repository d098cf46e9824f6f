//! ResNet and wide ResNet for large images (v1.5: the stride is in the 3×3 convolution).
//!
//! Four stages of bottleneck blocks: 1×1 convolution, 3×3 convolution, 1×1 convolution. With
//! widening factor k the 3×3 convolutions have 64k, 128k, 256k and 512k channels; the outputs have
//! 256, 512, 1024 and 2048 whatever k is. WRN-50-2 is ResNet-50 with k = 2. Tensor names are
//! torchvision's.

use super::builder::{Builder, Window};
use super::image::ImageShape;
use super::name::ArchName;
use super::types::{Activation, Architecture, NodeId};

/// Number of blocks in each stage; `None` for a depth that does not exist.
pub(super) fn stages(depth: usize) -> Option<[usize; 4]> {
    match depth {
        50 => Some([3, 4, 6, 3]),
        101 => Some([3, 4, 23, 3]),
        152 => Some([3, 8, 36, 3]),
        _ => None,
    }
}

/// Builds a network with these blocks per stage and this widening factor.
pub(super) fn build(
    name: ArchName,
    input: ImageShape,
    classes: usize,
    stages: [usize; 4],
    width: usize,
) -> Architecture {
    let (mut b, image) = Builder::new(name, input);
    let x = b.conv("conv1", image, 64, Window::new(7, 2));
    let x = b.batch_norm("bn1", x, Activation::Relu);
    let mut x = b.max_pool("maxpool", x, 3, 2);
    for (stage, &blocks) in stages.iter().enumerate() {
        for block in 0..blocks {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            x = bottleneck(
                &mut b,
                &format!("layer{}.{block}", stage + 1),
                x,
                64 << stage,
                width,
                stride,
            );
        }
    }
    let logits = b.exit("avgpool", "fc", x, classes);
    b.finish(vec![logits], classes)
}

/// Appends one bottleneck block with its shortcut.
fn bottleneck(
    b: &mut Builder,
    path: &str,
    x: NodeId,
    planes: usize,
    width: usize,
    stride: usize,
) -> NodeId {
    let (inner, out) = (planes * width, planes * 4);
    let h = b.conv(&format!("{path}.conv1"), x, inner, Window::new(1, 1));
    let h = b.batch_norm(&format!("{path}.bn1"), h, Activation::Relu);
    let h = b.conv(&format!("{path}.conv2"), h, inner, Window::new(3, stride));
    let h = b.batch_norm(&format!("{path}.bn2"), h, Activation::Relu);
    let h = b.conv(&format!("{path}.conv3"), h, out, Window::new(1, 1));
    let h = b.batch_norm(&format!("{path}.bn3"), h, Activation::None);
    let shortcut = if b.channels(x) == out && stride == 1 {
        x
    } else {
        let s = b.conv(&format!("{path}.downsample.0"), x, out, Window::new(1, stride));
        b.batch_norm(&format!("{path}.downsample.1"), s, Activation::None)
    };
    b.add(&format!("{path}.add"), h, shortcut, Activation::Relu)
}
