//! A plain convolutional network for tests and first experiments.
//!
//! `cnn-8-16-32` has one 3×3 convolution, batch norm and ReLU per number. The first convolution has
//! stride 1, all others stride 2.

use super::builder::{Builder, Window};
use super::image::ImageShape;
use super::name::ArchName;
use super::types::{Activation, Architecture};

/// Builds a network with one convolution per width.
pub(super) fn build(
    name: ArchName,
    input: ImageShape,
    classes: usize,
    widths: &[usize],
) -> Architecture {
    let (mut b, mut x) = Builder::new(name, input);
    for (i, &width) in widths.iter().enumerate() {
        let stride = if i == 0 { 1 } else { 2 };
        x = b.conv(&format!("conv{}", i + 1), x, width, Window::new(3, stride));
        x = b.batch_norm(&format!("bn{}", i + 1), x, Activation::Relu);
    }
    let logits = b.exit("pool", "fc", x, classes);
    b.finish(vec![logits], classes)
}
