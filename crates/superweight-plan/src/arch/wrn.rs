//! Wide residual networks for small images.
//!
//! WRN-d-k has a 3×3 stem with 16 channels and three stages of (d − 4) / 6 pre-activation basic
//! blocks with 16k, 32k and 64k channels. k is given in hundredths; channels are rounded. A k below
//! 1 gives the plain network that a small budget pays for.
//!
//! A block that changes width or resolution has a shortcut: a 1×1 convolution of the *activated*
//! input, which the branch reads too. Any other block adds its raw input; so does every block in
//! the first stage of WRN-d-1.

use super::builder::{Builder, Window};
use super::image::ImageShape;
use super::name::ArchName;
use super::types::{Activation::Relu, Architecture, NodeId};

/// Builds a network with this depth, 6n + 4, and a widening factor in hundredths.
pub(super) fn build(
    name: ArchName,
    input: ImageShape,
    classes: usize,
    depth: usize,
    percent: usize,
) -> Architecture {
    let (mut b, image) = Builder::new(name, input);
    let mut x = b.conv("conv1", image, 16, Window::new(3, 1));
    for stage in 0..3 {
        let out = ((16 << stage) * percent + 50) / 100;
        for block in 0..(depth - 4) / 6 {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            x = basic_block(&mut b, &format!("block{}.layer.{block}", stage + 1), x, out, stride);
        }
    }
    let x = b.batch_norm("bn1", x, Relu);
    let logits = b.exit("pool", "fc", x, classes);
    b.finish(vec![logits], classes)
}

/// Appends one pre-activation basic block.
fn basic_block(b: &mut Builder, path: &str, x: NodeId, out: usize, stride: usize) -> NodeId {
    let same = b.channels(x) == out && stride == 1;
    let activated = b.batch_norm(&format!("{path}.bn1"), x, Relu);
    let h = b.conv(&format!("{path}.conv1"), activated, out, Window::new(3, stride));
    let h = b.batch_norm(&format!("{path}.bn2"), h, Relu);
    let h = b.conv(&format!("{path}.conv2"), h, out, Window::new(3, 1));
    let shortcut = match same {
        true => x,
        false => b.conv(&format!("{path}.convShortcut"), activated, out, Window::new(1, stride)),
    };
    b.add(&format!("{path}.add"), shortcut, h, super::Activation::None)
}
