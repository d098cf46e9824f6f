//! Multi-scale dense networks (Huang et al., *Multi-scale dense networks for resource efficient
//! image classification*, 2018): three resolutions, dense connections, an exit after each block.
//!
//! ```text
//! images ─► 3×3 ─┬─► layer ─┬─► layer ─┬─ …        a layer concatenates its input,
//!           ↓ ½  │     ↓    │     ↓    │             new channels from the same resolution, and
//!          3×3 ──┼─► layer ─┼─► layer ─┼─ …          new channels from the finer one (stride 2)
//!           ↓ ½  │     ↓    │     ↓    │
//!          3×3 ──┴─► layer ─┴─► layer ─┼─► exit
//! ```
//!
//! Sizes are those of the authors' CIFAR networks: four layers before the first exit and two more
//! before each further one; 16, 32 and 64 channels at the start; growth in the ratio 1:2:4, each
//! through a 1×1 bottleneck. After each third of the layers the finest resolution is dropped and
//! channels are halved. Tensor names are those of the PyTorch version that most people use.

use super::builder::{Builder, Window};
use super::image::ImageShape;
use super::name::ArchName;
use super::types::{Activation, Architecture, NodeId};

/// Factor of the channels at each resolution, from fine to coarse.
///
/// A bottleneck is at most this factor times as wide as its output.
const FACTORS: [usize; 3] = [1, 2, 4];
/// Channels of the finest resolution before the first layer.
const FIRST: usize = 16;
/// Number of layers before the first exit.
const BASE: usize = 4;
/// Number of layers between two exits.
const STEP: usize = 2;
/// Channels of the convolutions of an exit.
const EXIT: usize = 128;

/// Builds a network with one exit per block.
pub(super) fn build(
    name: ArchName,
    input: ImageShape,
    classes: usize,
    blocks: usize,
    growth: usize,
) -> Architecture {
    let layers = BASE + STEP * (blocks - 1);
    let (mut b, image) = Builder::new(name, input);
    let mut x = first(&mut b, image);
    // Channels divided by the factor of the resolution; the same number at every resolution.
    let (mut channels, mut layer) = (FIRST, 0);
    let mut exits = vec![];
    for block in 0..blocks {
        // Module 0 of the first block makes the three resolutions.
        let mut module = usize::from(block == 0);
        for _ in 0..if block == 0 { BASE } else { STEP } {
            let finest = layer / layers.div_ceil(FACTORS.len());
            let dropped = finest + x.len() - FACTORS.len();
            let path = format!("blocks.{block}.{module}");
            x = dense(&mut b, &path, &x, growth, finest, dropped);
            channels += growth;
            (layer, module) = (layer + 1, module + 1);
            if dropped > 0 {
                channels /= 2;
                let path = format!("blocks.{block}.{module}");
                x = halved(&mut b, &path, &x, channels, finest);
                module += 1;
            }
        }
        let path = format!("classifier.{block}");
        let coarsest = *x.last().expect("there is at least one resolution");
        let h = basic(&mut b, &format!("{path}.m.0"), coarsest, EXIT, Window::new(3, 2));
        let h = basic(&mut b, &format!("{path}.m.1"), h, EXIT, Window::new(3, 2));
        exits.push(b.exit(&format!("{path}.m.2"), &format!("{path}.linear"), h, classes));
    }
    b.finish(exits, classes)
}

/// Makes the three resolutions: the first from the images, the others by stride 2 from the one
/// before.
fn first(b: &mut Builder, image: NodeId) -> Vec<NodeId> {
    let mut x = image;
    let scale = |(scale, factor): (usize, usize)| {
        let window = Window::new(3, if scale == 0 { 1 } else { 2 });
        x = basic(b, &format!("blocks.0.0.layers.{scale}"), x, FIRST * factor, window);
        x
    };
    FACTORS.into_iter().enumerate().map(scale).collect()
}

/// Appends one layer at the resolutions from `finest` on.
///
/// The first `dropped` inputs are of finer resolutions, which the layer reads but does not
/// continue.
fn dense(
    b: &mut Builder,
    path: &str,
    x: &[NodeId],
    growth: usize,
    finest: usize,
    dropped: usize,
) -> Vec<NodeId> {
    let scale = |scale: usize| {
        let (path, same) = (format!("{path}.layers.{}", scale - finest), scale - finest + dropped);
        let grown = growth * FACTORS[scale];
        let (normal, down) = (format!("{path}.conv_normal"), format!("{path}.conv_down"));
        let mut beside = vec![x[same]];
        if same > 0 {
            let factor = FACTORS[scale - 1];
            beside.push(bottleneck(b, &down, x[same - 1], grown / 2, factor, 2));
            beside.push(bottleneck(b, &normal, x[same], grown / 2, FACTORS[scale], 1));
        } else {
            beside.push(bottleneck(b, &normal, x[same], grown, FACTORS[scale], 1));
        }
        b.concat(&format!("{path}.cat"), beside)
    };
    (finest..FACTORS.len()).map(scale).collect()
}

/// Reduces every resolution from `finest` on to `channels` times its factor, by 1×1 convolutions.
fn halved(
    b: &mut Builder,
    path: &str,
    x: &[NodeId],
    channels: usize,
    finest: usize,
) -> Vec<NodeId> {
    let one = |(i, &x): (usize, &NodeId)| {
        basic(b, &format!("{path}.m.{i}"), x, channels * FACTORS[finest + i], Window::new(1, 1))
    };
    x.iter().enumerate().map(one).collect()
}

/// Appends a 1×1 convolution to at most `factor * out` channels and a 3×3 convolution to `out`.
fn bottleneck(
    b: &mut Builder,
    path: &str,
    x: NodeId,
    out: usize,
    factor: usize,
    stride: usize,
) -> NodeId {
    let inner = b.channels(x).min(factor * out);
    let h = b.conv(&format!("{path}.net.0"), x, inner, Window::new(1, 1));
    let h = b.batch_norm(&format!("{path}.net.1"), h, Activation::Relu);
    let h = b.conv(&format!("{path}.net.3"), h, out, Window::new(3, stride));
    b.batch_norm(&format!("{path}.net.4"), h, Activation::Relu)
}

/// Appends a convolution, batch norm and ReLU.
fn basic(b: &mut Builder, path: &str, x: NodeId, out: usize, window: Window) -> NodeId {
    let h = b.conv(&format!("{path}.net.0"), x, out, window);
    b.batch_norm(&format!("{path}.net.1"), h, Activation::Relu)
}
