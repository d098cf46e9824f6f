//! Convolutions of the networks we train, per direction and algorithm. `Gitem/s` in the output is
//! GFLOP/s.
//!
//!     cargo bench -p superweight-engine --bench conv -- 64_16x16
//!
//! `compare/torch_conv.py` measures the same shapes in PyTorch. On a shared machine compare ratios
//! from runs side by side.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use superweight_engine::cpu::conv::{Algorithm, Conv, Write};
use superweight_engine::geometry::ConvGeometry;

fn main() {
    divan::main();
}

/// Name, batch, size, in, out, kernel, stride, padding, groups.
#[rustfmt::skip]
const SHAPES: &[(&str, [usize; 8])] = &[
    ("stem_b32",               [ 32, 32,   3,  16, 3, 1, 1, 1]),
    ("16_32x32_b128",          [128, 32,  16,  16, 3, 1, 1, 1]), // WRN-28-1
    ("16-32s2_32x32_b128",     [128, 32,  16,  32, 3, 2, 1, 1]),
    ("32_16x16_b128",          [128, 16,  32,  32, 3, 1, 1, 1]),
    ("64_8x8_b128",            [128,  8,  64,  64, 3, 1, 1, 1]),
    ("16-32_32x32_b32",        [ 32, 32,  16,  32, 3, 1, 1, 1]), // WRN-16-2
    ("32_32x32_b32",           [ 32, 32,  32,  32, 3, 1, 1, 1]),
    ("32-64s2_32x32_b32",      [ 32, 32,  32,  64, 3, 2, 1, 1]),
    ("64_16x16_b32",           [ 32, 16,  64,  64, 3, 1, 1, 1]),
    ("64-128s2_16x16_b32",     [ 32, 16,  64, 128, 3, 2, 1, 1]),
    ("128_8x8_b32",            [ 32,  8, 128, 128, 3, 1, 1, 1]),
    ("64_32x32_b32",           [ 32, 32,  64,  64, 3, 1, 1, 1]), // WRN-28-4
    ("128_16x16_b32",          [ 32, 16, 128, 128, 3, 1, 1, 1]),
    ("256_8x8_b32",            [ 32,  8, 256, 256, 3, 1, 1, 1]),
    ("b1_64_32x32",            [  1, 32,  64,  64, 3, 1, 1, 1]),
    ("b1_128_16x16",           [  1, 16, 128, 128, 3, 1, 1, 1]),
    ("b1_256_8x8",             [  1,  8, 256, 256, 3, 1, 1, 1]),
    ("160_32x32_b4",           [  4, 32, 160, 160, 3, 1, 1, 1]), // WRN-28-10
    ("640_8x8_b8",             [  8,  8, 640, 640, 3, 1, 1, 1]),
    ("tiles4_64",              [  1,  8,  64,  64, 3, 1, 1, 1]), // where Winograd starts to win
    ("tiles16_64",             [  1, 16,  64,  64, 3, 1, 1, 1]),
    ("tiles32_64",             [  2, 16,  64,  64, 3, 1, 1, 1]),
    ("tiles64_64",             [  4, 16,  64,  64, 3, 1, 1, 1]),
    ("tiles16_256",            [  4,  8, 256, 256, 3, 1, 1, 1]),
    ("tiles32_256",            [  8,  8, 256, 256, 3, 1, 1, 1]),
    ("tiles64_256",            [ 16,  8, 256, 256, 3, 1, 1, 1]),
    ("tiles16_16",             [  1, 16,  16,  16, 3, 1, 1, 1]),
    ("tiles64_16",             [  4, 16,  16,  16, 3, 1, 1, 1]),
    ("1x1_16-32_32x32_b32",    [ 32, 32,  16,  32, 1, 1, 0, 1]),
    ("1x1_64-128s2_32x32_b32", [ 32, 32,  64, 128, 1, 2, 0, 1]),
    ("1x1_256_16x16_b32",      [ 32, 16, 256, 256, 1, 1, 0, 1]),
    ("dw96_16x16_b32",         [ 32, 16,  96,  96, 3, 1, 1, 96]), // MobileNetV2
    ("dw192s2_16x16_b32",      [ 32, 16, 192, 192, 3, 2, 1, 192]),
];

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Direct, Algorithm::Winograd, Algorithm::Fastest];

struct Case {
    conv: Conv,
    x: Vec<f32>,
    w: Vec<f32>,
    y: Vec<f32>,
    scratch: Vec<f32>,
}

/// A shape with one algorithm and varying operands.
fn case(name: &str, algorithm: Algorithm) -> Case {
    let (_, [batch, size, in_channels, out_channels, kernel, stride, padding, groups]) =
        *SHAPES.iter().find(|shape| shape.0 == name).expect("a known shape");
    let geometry = ConvGeometry {
        batch,
        input: [size; 2],
        in_channels,
        out_channels,
        kernel: [kernel; 2],
        stride: [stride; 2],
        padding: [padding; 2],
        groups,
    };
    let conv = Conv::with_algorithm(geometry, algorithm);
    let fill = |len| {
        (0..len)
            .map(|i: usize| (i.wrapping_mul(2_654_435_761) % 1000) as f32 / 500.0 - 1.0)
            .collect()
    };
    let scratch = conv
        .forward_scratch()
        .max(conv.backward_data_scratch())
        .max(conv.backward_weight_scratch());
    Case {
        x: fill(geometry.input_len()),
        w: fill(geometry.weight_len()),
        y: fill(geometry.output_len()),
        scratch: vec![0.0; scratch],
        conv,
    }
}

fn flops(case: &Case) -> ItemsCount {
    ItemsCount::new(2 * case.conv.geometry().multiply_adds())
}

fn names() -> impl Iterator<Item = String> {
    SHAPES.iter().flat_map(|(name, _)| ALGORITHMS.map(|algorithm| format!("{name} {algorithm:?}")))
}

fn parse(argument: &str) -> Case {
    let (name, algorithm) = argument.split_once(' ').expect("name and algorithm");
    case(
        name,
        *ALGORITHMS.iter().find(|a| format!("{a:?}") == algorithm).expect("a known algorithm"),
    )
}

#[divan::bench(args = names(), max_time = 0.3)]
fn forward(bencher: Bencher, argument: &str) {
    let mut c = parse(argument);
    bencher.counter(flops(&c)).bench_local(|| {
        c.conv.forward(black_box(&c.x), &c.w, &mut c.y, Write::Set, &mut c.scratch);
    });
}

#[divan::bench(args = names(), max_time = 0.3)]
fn forward_packed(bencher: Bencher, argument: &str) {
    let mut c = parse(argument);
    let mut packed = vec![0.0; c.conv.packed_len()];
    c.conv.pack_forward(&c.w, &mut packed, &mut c.scratch);
    bencher.counter(flops(&c)).bench_local(|| {
        c.conv.forward_packed(black_box(&c.x), &packed, &mut c.y, Write::Set, &mut c.scratch);
    });
}

#[divan::bench(args = names(), max_time = 0.3)]
fn backward_data(bencher: Bencher, argument: &str) {
    let mut c = parse(argument);
    bencher.counter(flops(&c)).bench_local(|| {
        c.conv.backward_data(black_box(&c.y), &c.w, &mut c.x, Write::Set, &mut c.scratch);
    });
}

#[divan::bench(args = names(), max_time = 0.3)]
fn backward_weight(bencher: Bencher, argument: &str) {
    let mut c = parse(argument);
    bencher.counter(flops(&c)).bench_local(|| {
        c.conv.backward_weight(black_box(&c.x), &c.y, &mut c.w, Write::Set, &mut c.scratch);
    });
}
