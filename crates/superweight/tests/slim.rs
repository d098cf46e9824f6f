//! A network with masked channels equals the narrower network without them: the figures that `slim`
//! decides by are those of narrower architectures with the corners of the whole network's
//! parameters, for every family.

use std::ops::ControlFlow;

use superweight::data::{Images, Normalization};
use superweight::engine::{CpuDevice, CudaDevice, Device, Precision};
use superweight::infer::Line;
use superweight::infer::slim::{Progress, Slimming, Trial, is_slimmable};
use superweight::plan::arch::{Architecture, ImageShape, TensorKind};
use superweight::plan::{
    Clustering, Member, MemberId, PlanRequest, Scale, SharedRoles, SharingPlan, TilingChoice,
};
use superweight::rng::Draws;
use superweight::run::{Tensor, Tensors};

const SHAPE: ImageShape = ImageShape { channels: 3, height: 8, width: 8 };
const IMAGES: usize = 12;
const BATCH: usize = 5;

fn architecture(name: &str) -> Architecture {
    name.parse::<superweight::plan::arch::ArchName>().unwrap().build(SHAPE, 5).unwrap()
}

/// Random parameters; those of batch norms are around 1 and 0.
fn parameters(architecture: &Architecture) -> Tensors {
    let mut tensors = Tensors::default();
    for (i, tensor) in architecture.tensors.iter().enumerate() {
        let draws = Draws::new(&[5, i as u64]);
        let fan_in: usize = tensor.shape[1..].iter().product();
        let (mean, spread) = match tensor.kind {
            TensorKind::NormScale => (1.0, 0.5),
            TensorKind::NormShift | TensorKind::LinearBias => (0.0, 0.5),
            TensorKind::ConvWeight | TensorKind::LinearWeight => {
                (0.0, (6.0 / fan_in as f64).sqrt())
            }
        };
        let values =
            (0..tensor.len()).map(|i| (mean + spread * draws.signed_unit(i)) as f32).collect();
        tensors.insert(&tensor.name, Tensor::new(&tensor.shape, values));
    }
    tensors
}

/// The first rows and columns of every tensor, as parameters of a narrower network.
fn corner(parameters: &Tensors, whole: &Architecture, narrow: &Architecture) -> Tensors {
    let mut tensors = Tensors::default();
    for (from, to) in whole.tensors.iter().zip(&narrow.tensors) {
        let values = parameters.expect::<f32>(&from.name, &from.shape).unwrap();
        let dims = |shape: &[usize]| match *shape {
            [out] => [out, 1, 1],
            [out, inp] => [out, inp, 1],
            [out, inp, kh, kw] => [out, inp, kh * kw],
            _ => unreachable!("{shape:?}"),
        };
        let ([_, columns, taps], [rows, kept, _]) = (dims(&from.shape), dims(&to.shape));
        let row = |row: usize| values[row * columns * taps..][..kept * taps].to_vec();
        tensors.insert(&to.name, Tensor::new(&to.shape, (0..rows).flat_map(row).collect()));
    }
    tensors
}

/// Channels of every width; `of` gives them for the index of a width and its channels.
fn widths(whole: &Architecture, of: impl Fn(usize, usize) -> usize) -> Vec<usize> {
    whole.widths().iter().enumerate().map(|(i, width)| of(i, width.channels)).collect()
}

fn a_masked_network_is_the_narrower_network<D: Device>(device: &D) {
    let draws = Draws::new(&[9]);
    let byte = |i| (draws.signed_unit(i) * 127.0 + 128.0) as u8;
    let pixels: Vec<u8> = (0..(IMAGES * 192) as u64).map(byte).collect();
    let images =
        Images { pixels: pixels.into(), labels: (0..IMAGES as u16).map(|i| i % 5).collect() };
    let normalization = Normalization { mean: vec![128.0; 3].into(), std: vec![64.0; 3].into() };
    for (name, each, rounding) in [
        ("cnn-8-8-16", true, 5e-4),
        ("wrn-10-1", true, 5e-4),
        ("wrn-16-2", false, 5e-4),
        // The last batch norms have five single pixels here.
        ("resnet-50", false, 5e-3),
        ("mobilenet-v2-0.35", true, 5e-4),
        ("mimo-2-cnn-8-8", true, 5e-4),
        ("cnn-16-24@8-20", true, 5e-4),
    ] {
        let whole = architecture(name);
        let parameters = parameters(&whole);
        let mut trial = Trial::new(device, &whole, &parameters, BATCH).unwrap();
        let all = widths(&whole, |_, channels| channels);
        // Every width is narrowed by a different share, with the whole network in between; then one
        // width at a time.
        let mut tried = vec![
            widths(&whole, |i, channels| (channels * (4 + i % 4)).div_ceil(8)),
            all.clone(),
            widths(&whole, |i, channels| (channels * (7 - i % 5)).div_ceil(8)),
        ];
        if each {
            let alone = |alone: usize| {
                widths(
                    &whole,
                    |i, channels| if i == alone { channels.div_ceil(2) } else { channels },
                )
            };
            tried.extend((0..all.len()).map(alone));
        }
        let go_on = || ControlFlow::Continue(());
        let whole_figures = trial.figures(&all, &images, &normalization, go_on).unwrap().unwrap();
        for widths in tried {
            let narrow = architecture(&whole.name.slimmed(widths.clone()).to_string());
            let corner = corner(&parameters, &whole, &narrow);
            let line = Line { architecture: &narrow, from: &corner, to: &corner };
            let single =
                line.evaluate(device, &images, &normalization, BATCH, 1).unwrap()[0].figures;
            let masked = trial.figures(&widths, &images, &normalization, go_on).unwrap().unwrap();
            let difference = (masked.nll - single.nll).abs();
            assert!(difference < rounding, "{name} {widths:?}: {} and {}", masked.nll, single.nll);
            assert_eq!(
                masked.nll == whole_figures.nll,
                widths == all,
                "{name} {widths:?}: {}",
                masked.nll
            );
        }
    }
}

#[test]
fn on_a_processor() {
    a_masked_network_is_the_narrower_network(&CpuDevice::new(2).unwrap());
}

#[test]
fn on_a_gpu() {
    match CudaDevice::new(0, Precision::F32) {
        Ok(device) => a_masked_network_is_the_narrower_network(&device),
        Err(error) if std::env::var_os("SWN_REQUIRE_CUDA").is_some() => {
            panic!("no CUDA device: {error}")
        }
        Err(error) => println!("CUDA was skipped: {error}"),
    }
}

#[test]
fn every_step_is_a_narrower_network() {
    let device = CpuDevice::new(2).unwrap();
    let whole = architecture("cnn-8-8-16");
    let parameters = parameters(&whole);
    let images = Images { pixels: vec![7; IMAGES * 192].into(), labels: vec![0; IMAGES] };
    let normalization = Normalization { mean: vec![8.0; 3].into(), std: vec![1.0; 3].into() };
    let slimming = Slimming { architecture: &whole, parameters: &parameters, step: Some(3) };
    let on_progress = |_: Progress| ControlFlow::Continue(());
    let way = slimming.run(&device, &images, &normalization, BATCH, 0, on_progress).unwrap();
    // 8 to 6 to 3 twice, 16 to 15 to 12 and so on to 3.
    assert_eq!(way.len(), 1 + 2 + 2 + 5);
    for slimmed in &way {
        let narrow = architecture(&whole.name.slimmed(slimmed.widths.clone()).to_string());
        assert_eq!(narrow.counts().multiply_adds, slimmed.multiply_adds);
    }
    assert_eq!(way[9].widths, [3, 3, 3]);
}

#[test]
fn a_member_is_slimmable_if_its_corner_is_a_member() {
    let plan = |members: &[&str], scale| {
        let member =
            |name: &&str| Member { architecture: name.parse().unwrap(), input: SHAPE, classes: 5 };
        let mut request = PlanRequest::new(members.iter().map(member).collect(), None);
        request.clusters = Clustering::PerPosition;
        request.tiling = TilingChoice::Nested;
        request.scale = Some(scale);
        request.shared_roles = SharedRoles { stem: true, classifier: Some(true) };
        request.max_templates = Some(1);
        request.budget = Some(request.dense_total().unwrap());
        request.plan().unwrap()
    };
    let slimmable = |plan: &SharingPlan| -> Vec<bool> {
        (0..plan.members.len()).map(|member| is_slimmable(plan, MemberId(member))).collect()
    };
    let widths = plan(&["wrn-10-2", "wrn-10-1.5", "wrn-10-1.25"], Scale::Corner);
    assert_eq!(slimmable(&widths), [true, true, false]);
    // WRN-10-1 has no first shortcut, so its other layers are at other positions.
    assert_eq!(slimmable(&plan(&["wrn-10-2", "wrn-10-1"], Scale::Corner)), [false, false]);
    assert_eq!(slimmable(&plan(&["wrn-10-2", "wrn-10-2"], Scale::Corner)), [false, false]);
    assert_eq!(slimmable(&plan(&["wrn-10-2"], Scale::Corner)), [false]);
    // Templates are equal but weights differ: each layer has its own factor.
    assert_eq!(slimmable(&plan(&["wrn-10-2", "wrn-10-1.5"], Scale::He)), [false, false]);
}
