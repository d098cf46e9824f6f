//! A network that channels were taken from is the network that never had them: the figures on the way of `slim` are those of
//! narrower architectures with the corners of the whole one's numbers, for every family.

use std::ops::ControlFlow;

use superweight::data::{Images, Normalisation};
use superweight::engine::CpuDevice;
use superweight::evaluate::{Figures, Line};
use superweight::plan::arch::{Architecture, ImageShape, TensorKind};
use superweight::random::Draws;
use superweight::run::{Tensor, Tensors};
use superweight::slim::{Progress, Slimming};

const SHAPE: ImageShape = ImageShape { channels: 3, height: 8, width: 8 };
const IMAGES: usize = 12;
const BATCH: usize = 5;
/// Of losses; the last batch norms of ResNet-50 see five single pixels here. Channels that go change losses by more.
const ROUNDING: f64 = 5e-4;

fn architecture(name: &str) -> Architecture {
    name.parse::<superweight::plan::arch::ArchName>().unwrap().build(SHAPE, 5).unwrap()
}

/// Any numbers, those of batch norms around 1 and 0.
fn numbers(architecture: &Architecture) -> Tensors {
    let mut tensors = Tensors::default();
    for (i, tensor) in architecture.tensors.iter().enumerate() {
        let draws = Draws::new(&[5, i as u64]);
        let fan_in: usize = tensor.shape[1..].iter().product();
        let (mean, spread) = match tensor.kind {
            TensorKind::NormScale => (1.0, 0.5),
            TensorKind::NormShift | TensorKind::LinearBias => (0.0, 0.5),
            TensorKind::ConvWeight | TensorKind::LinearWeight => (0.0, (6.0 / fan_in as f64).sqrt()),
        };
        let values = (0..tensor.len()).map(|i| (mean + spread * draws.signed_unit(i)) as f32).collect();
        tensors.insert(&tensor.name, Tensor::new(&tensor.shape, values));
    }
    tensors
}

/// The first rows and columns of every tensor: what a narrower network has of these numbers.
fn corner(numbers: &Tensors, whole: &Architecture, narrow: &Architecture) -> Tensors {
    let mut tensors = Tensors::default();
    for (from, to) in whole.tensors.iter().zip(&narrow.tensors) {
        let values = numbers.expect::<f32>(&from.name, &from.shape).unwrap();
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

#[test]
fn what_is_left_is_the_narrower_network() {
    let device = CpuDevice::new(2).unwrap();
    let draws = Draws::new(&[9]);
    let bytes: Vec<u8> =
        (0..(IMAGES * 192) as u64).map(|i| (draws.signed_unit(i) * 127.0 + 128.0) as u8).collect();
    let images = Images { pixels: bytes.into(), labels: (0..IMAGES as u16).map(|i| i % 5).collect() };
    let normalisation = Normalisation { mean: vec![128.0; 3].into(), deviation: vec![64.0; 3].into() };
    for (name, step, cuts) in [
        ("cnn-8-8-16", 3, 6),
        ("wrn-10-1", 8, 4),
        ("wrn-10-2", 16, 5),
        ("resnet-50", 64, 1),
        ("mobilenet-v2-0.35", 8, 2),
        ("mimo-2-cnn-8-8", 4, 2),
        ("cnn-16-24@8-20", 4, 3),
    ] {
        let whole = architecture(name);
        let numbers = numbers(&whole);
        let slimming = Slimming { architecture: &whole, numbers: &numbers, step: Some(step) };
        let mut taken = 0;
        let enough = |progress: Progress| {
            taken += usize::from(matches!(progress, Progress::Taken(_)));
            if taken > cuts { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let way = slimming.run(&device, &images, &normalisation, BATCH, 0, enough).unwrap();
        assert_eq!(way.len(), cuts + 1);
        for slimmed in &way {
            let narrow = architecture(&whole.name.slimmed(slimmed.widths.clone()).to_string());
            assert_eq!(narrow.counts().multiply_adds, slimmed.multiply_adds);
            let corner = corner(&numbers, &whole, &narrow);
            let line = Line { architecture: &narrow, from: &corner, to: &corner };
            let alone = line.evaluate(&device, &images, &normalisation, BATCH, 1).unwrap()[0].figures;
            let Figures { top1, nll, .. } = slimmed.figures;
            assert!((nll - alone.nll).abs() < ROUNDING, "{name} {:?}: {nll} {}", slimmed.widths, alone.nll);
            assert_eq!(top1, alone.top1, "{name} {:?}", slimmed.widths);
        }
        let losses: Vec<f64> = way.iter().map(|slimmed| slimmed.figures.nll).collect();
        assert!(losses.windows(2).all(|pair| (pair[0] - pair[1]).abs() > ROUNDING), "{name}: {losses:?}");
    }
}
