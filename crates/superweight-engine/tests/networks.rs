//! Finite differences through small networks, one of each family, and through segmented methods.

mod common;

use common::Check;
use superweight_engine::{
    Activation, BatchNorm, Conv2d, CrossEntropy, Error, GraphBuilder, NodeId, Pool2d, Scope, Shape,
};

type Built = Result<NodeId, Error>;

/// Appends pooling, a classifier and a smoothed loss, and checks every gradient.
fn check(
    name: &str,
    batch: usize,
    shape: Shape,
    body: impl FnOnce(&mut GraphBuilder, NodeId) -> Built,
) {
    let mut g = GraphBuilder::new(name);
    let x = g.input("x", shape).unwrap();
    let x = body(&mut g, x).unwrap();
    let x = g.global_average_pool("pool", x).unwrap();
    let logits = g.linear("fc", x, 5, true).unwrap();
    g.cross_entropy("loss", logits, CrossEntropy::classes("labels").smoothing(0.1)).unwrap();
    let mut check = Check::new(g.finish().unwrap(), batch, ("x", shape.len()));
    check.classes = vec![("labels", 5)];
    check.losses = vec![("loss", 1.0)];
    check.steps = vec![3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4];
    check.tolerance = 2e-2;
    // The loss is one float of about 2, known to 1e-7; the steps are about 1e-3.
    check.floor = 2e-4;
    check.run_everywhere();
}

fn basic_block(g: &mut GraphBuilder, name: &str, x: NodeId, out: usize, stride: usize) -> Built {
    let same = g.shape(x).channels == out && stride == 1;
    let a = g.batch_norm(format!("{name}.bn1"), x, BatchNorm::relu())?;
    let h = g.conv(format!("{name}.conv1"), a, Conv2d::new(out, 3).stride(stride).padding(1))?;
    let h = g.batch_norm(format!("{name}.bn2"), h, BatchNorm::relu())?;
    let h = g.conv(format!("{name}.conv2"), h, Conv2d::new(out, 3).padding(1))?;
    let shortcut = match same {
        true => x,
        false => g.conv(format!("{name}.shortcut"), a, Conv2d::new(out, 1).stride(stride))?,
    };
    g.add(format!("{name}.add"), shortcut, h, Activation::None)
}

fn bottleneck(
    g: &mut GraphBuilder,
    name: &str,
    x: NodeId,
    inner: usize,
    out: usize,
    stride: usize,
) -> Built {
    let same = g.shape(x).channels == out && stride == 1;
    let h = g.conv(format!("{name}.conv1"), x, Conv2d::new(inner, 1))?;
    let h = g.batch_norm(format!("{name}.bn1"), h, BatchNorm::relu())?;
    let h = g.conv(format!("{name}.conv2"), h, Conv2d::new(inner, 3).stride(stride).padding(1))?;
    let h = g.batch_norm(format!("{name}.bn2"), h, BatchNorm::relu())?;
    let h = g.conv(format!("{name}.conv3"), h, Conv2d::new(out, 1))?;
    let h = g.batch_norm(format!("{name}.bn3"), h, BatchNorm::plain())?;
    let shortcut = match same {
        true => x,
        false => {
            let s = g.conv(format!("{name}.down"), x, Conv2d::new(out, 1).stride(stride))?;
            g.batch_norm(format!("{name}.down_bn"), s, BatchNorm::plain())?
        }
    };
    g.add(format!("{name}.add"), h, shortcut, Activation::Relu)
}

fn inverted(g: &mut GraphBuilder, name: &str, x: NodeId, out: usize, stride: usize) -> Built {
    let hidden = 3 * g.shape(x).channels;
    let residual = g.shape(x).channels == out && stride == 1;
    let h = g.conv(format!("{name}.expand"), x, Conv2d::new(hidden, 1))?;
    let h = g.batch_norm(format!("{name}.bn1"), h, BatchNorm::relu6())?;
    let depthwise = Conv2d::new(hidden, 3).stride(stride).padding(1).groups(hidden);
    let h = g.conv(format!("{name}.depthwise"), h, depthwise)?;
    let h = g.batch_norm(format!("{name}.bn2"), h, BatchNorm::relu6())?;
    let h = g.conv(format!("{name}.project"), h, Conv2d::new(out, 1))?;
    let h = g.batch_norm(format!("{name}.bn3"), h, BatchNorm::plain())?;
    if residual { g.add(format!("{name}.add"), x, h, Activation::None) } else { Ok(h) }
}

#[test]
fn wide_residual_network() {
    for (batch, shape) in [(3, Shape::new(7, 5, 3)), (1, Shape::new(8, 8, 1))] {
        check("wrn", batch, shape, |g, x| {
            let x = g.conv("stem", x, Conv2d::new(4, 3).padding(1))?;
            let x = basic_block(g, "a", x, 4, 1)?;
            let x = basic_block(g, "b", x, 6, 2)?;
            g.batch_norm("bn", x, BatchNorm::relu())
        });
    }
}

#[test]
fn bottleneck_network() {
    check("bottleneck", 3, Shape::new(13, 11, 3), |g, x| {
        let x = g.conv("stem", x, Conv2d::new(4, 5).stride(2).padding(2))?;
        let x = g.batch_norm("bn", x, BatchNorm::relu())?;
        let x = g.pool("pool1", x, Pool2d::max(3, 2, 1))?;
        let x = bottleneck(g, "a", x, 3, 8, 1)?;
        let x = bottleneck(g, "b", x, 3, 8, 1)?;
        bottleneck(g, "c", x, 4, 12, 2)
    });
}

#[test]
fn mobile_network() {
    check("mobile", 3, Shape::new(9, 7, 3), |g, x| {
        let x = g.conv("stem", x, Conv2d::new(4, 3).padding(1))?;
        let x = g.batch_norm("bn", x, BatchNorm::relu6())?;
        let x = inverted(g, "a", x, 4, 1)?;
        let x = inverted(g, "b", x, 6, 2)?;
        inverted(g, "c", x, 6, 1)
    });
}

#[test]
fn plain_network_with_pools() {
    check("cnn", 2, Shape::new(9, 9, 1), |g, x| {
        let x = g.conv("conv1", x, Conv2d::new(5, 3).padding(1))?;
        let x = g.batch_norm("bn1", x, BatchNorm::relu())?;
        let x = g.pool("pool1", x, Pool2d::average(2, 2, 0))?;
        let x = g.conv("conv2", x, Conv2d::new(7, 3).padding(1))?;
        let x = g.batch_norm("bn2", x, BatchNorm::relu())?;
        g.activation("again", x, Activation::Relu6)
    });
}

#[test]
fn densely_connected_network() {
    check("dense", 2, Shape::new(6, 5, 2), |g, mut x| {
        for i in 0..3 {
            let h = g.batch_norm(format!("bn{i}"), x, BatchNorm::relu())?;
            let h = g.conv(format!("conv{i}"), h, Conv2d::new(3, 3).padding(1))?;
            x = g.concat(format!("concat{i}"), &[x, h])?;
        }
        Ok(x)
    });
}

#[test]
fn batch_ensemble_and_segmented_norms() {
    let norms = [
        (Scope::Joint, Scope::Joint),
        (Scope::Segment, Scope::Joint),
        (Scope::Segment, Scope::Segment),
        (Scope::Joint, Scope::Segment),
    ];
    for (statistics, parameters) in norms {
        check("batch ensemble", 6, Shape::new(5, 4, 3), |g, x| {
            let r = g.channel_scale("r", x, 3)?;
            let h = g.conv("conv", r, Conv2d::new(4, 3).padding(1))?;
            let s = g.channel_scale("s", h, 3)?;
            g.batch_norm("bn", s, BatchNorm::relu().segmented(3, statistics, parameters))
        });
    }
}
