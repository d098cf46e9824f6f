//! Multi-scale dense networks: three resolutions side by side, every layer reading all before it, an exit after each block
//! (Huang et al., Multi-scale dense networks for resource efficient image classification, 2018).
//!
//! ```text
//! images ─► 3×3 ─┬─► layer ─┬─► layer ─┬─ …        a layer: what came before, beside its growth
//!           ↓ ½  │     ↓    │     ↓    │             from the same resolution, and
//!          3×3 ──┼─► layer ─┼─► layer ─┼─ …          from the finer one by stride 2
//!           ↓ ½  │     ↓    │     ↓    │
//!          3×3 ──┴─► layer ─┴─► layer ─┼─► exit
//! ```
//!
//! As the authors build it for CIFAR: four layers before the first exit and two before each other, 16, 32 and 64 channels
//! to begin with, growth 1:2:4 over the resolutions by way of a 1×1 bottleneck. After each third of the layers the finest
//! resolution is dropped and channels are halved. Tensor names are those of the PyTorch version most people use.

use super::builder::{Builder, Window};
use super::image::ImageShape;
use super::name::ArchName;
use super::types::{Activation, Architecture, NodeId};

/// What channels are multiplied by, from fine to coarse; a bottleneck's width is this times its growth.
const FACTORS: [usize; 3] = [1, 2, 4];
/// Channels that the finest resolution begins with.
const FIRST: usize = 16;
/// Layers before the first exit.
const BASE: usize = 4;
/// Layers between two exits.
const STEP: usize = 2;
/// Channels of an exit's convolutions.
const EXIT: usize = 128;

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
    // Channels over their factor, the same at every resolution.
    let (mut channels, mut layer) = (FIRST, 0);
    let mut exits = vec![];
    for block in 0..blocks {
        // The first module of the first block is what makes the resolutions.
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
        let coarsest = *x.last().expect("there is one resolution at least");
        let h = basic(&mut b, &format!("{path}.m.0"), coarsest, EXIT, Window::new(3, 2));
        let h = basic(&mut b, &format!("{path}.m.1"), h, EXIT, Window::new(3, 2));
        exits.push(b.exit(&format!("{path}.m.2"), &format!("{path}.linear"), h, classes));
    }
    b.finish(exits, classes)
}

/// Every resolution from the one before it.
fn first(b: &mut Builder, image: NodeId) -> Vec<NodeId> {
    let mut x = image;
    let scale = |(scale, factor): (usize, usize)| {
        let window = Window::new(3, if scale == 0 { 1 } else { 2 });
        x = basic(b, &format!("blocks.0.0.layers.{scale}"), x, FIRST * factor, window);
        x
    };
    FACTORS.into_iter().enumerate().map(scale).collect()
}

/// A layer at the resolutions from `finest` on; of what it reads, the first `dropped` are finer than that.
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

/// Fewer channels at every resolution from `finest` on.
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

/// 1×1 to no more than `factor` times as many channels as come out, then 3×3.
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

fn basic(b: &mut Builder, path: &str, x: NodeId, out: usize, window: Window) -> NodeId {
    let h = b.conv(&format!("{path}.net.0"), x, out, window);
    b.batch_norm(&format!("{path}.net.1"), h, Activation::Relu)
}
