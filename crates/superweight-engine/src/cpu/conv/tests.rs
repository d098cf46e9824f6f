//! Compares every algorithm, direction and instruction set with the definition.

use super::*;

/// Random values in −1..1 from a seed (splitmix64).
fn random(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed;
    let next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    core::iter::repeat_with(next).take(len).collect()
}

fn error(a: &[f32], b: &[f32]) -> f64 {
    let norm = |it: &mut dyn Iterator<Item = f64>| it.map(|x| x * x).sum::<f64>().sqrt();
    let difference = norm(&mut a.iter().zip(b).map(|(&a, &b)| f64::from(a) - f64::from(b)));
    difference / norm(&mut b.iter().map(|&b| f64::from(b))).max(1e-30)
}

#[rustfmt::skip]
fn geometry(batch: usize, input: [usize; 2], channels: [usize; 2], kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2], groups: usize) -> ConvGeometry {
    ConvGeometry { batch, input, in_channels: channels[0], out_channels: channels[1], kernel, stride, padding, groups }
}

/// Hand-picked shapes, followed by random shapes from a seed.
fn geometries() -> Vec<ConvGeometry> {
    let mut all = vec![
        geometry(2, [8, 8], [16, 16], [3, 3], [1, 1], [1, 1], 1),
        geometry(1, [9, 7], [32, 48], [3, 3], [1, 1], [1, 1], 1),
        geometry(3, [8, 8], [33, 31], [3, 3], [1, 1], [1, 1], 1),
        geometry(2, [12, 10], [3, 16], [3, 3], [1, 1], [1, 1], 1), // the stem
        geometry(2, [9, 9], [16, 32], [3, 3], [2, 2], [1, 1], 1),
        // Three of four pixels get no gradient.
        geometry(2, [8, 8], [16, 32], [1, 1], [2, 2], [0, 0], 1),
        geometry(1, [1, 1], [5, 7], [3, 3], [1, 1], [1, 1], 1), // smaller than its kernel
        geometry(2, [2, 3], [4, 4], [5, 5], [1, 1], [2, 2], 1),
        geometry(1, [4, 4], [1, 1], [2, 2], [1, 1], [3, 3], 1), // padding past the kernel
        geometry(2, [9, 9], [20, 20], [3, 3], [1, 1], [1, 1], 20), // depthwise
        geometry(2, [9, 9], [40, 40], [3, 3], [2, 2], [1, 1], 40),
        geometry(1, [7, 7], [6, 12], [3, 3], [1, 1], [1, 1], 6), // depthwise, two outputs a channel
        geometry(2, [6, 6], [32, 64], [3, 3], [1, 1], [1, 1], 2),
        geometry(1, [11, 13], [4, 5], [7, 1], [3, 2], [3, 0], 1),
        geometry(1, [224, 9], [3, 8], [7, 7], [2, 2], [3, 3], 1),
        geometry(5, [4, 4], [130, 70], [3, 3], [1, 1], [1, 1], 1),
        geometry(2, [6, 5], [18, 17], [3, 3], [1, 1], [0, 2], 1),
    ];
    let bits = random(7, 2000);
    let mut bits = bits.iter().map(|x| ((x + 1.0) * 50_000.0) as usize);
    let mut pick = |from: &[usize]| from[bits.next().unwrap() % from.len()];
    while all.len() < 100 {
        let groups = pick(&[1, 1, 1, 1, 2, 3]);
        let g = geometry(
            pick(&[1, 2, 3]),
            [pick(&[1, 2, 5, 8, 11]), pick(&[1, 3, 4, 8, 13])],
            [
                groups * pick(&[1, 2, 3, 7, 16, 19, 32, 37]),
                groups * pick(&[1, 2, 5, 8, 16, 17, 33, 50]),
            ],
            [pick(&[1, 2, 3, 3, 3, 5, 7]), pick(&[1, 2, 3, 3, 3, 5, 7])],
            [pick(&[1, 1, 2, 3]), pick(&[1, 1, 2, 3])],
            [pick(&[0, 1, 1, 2, 3]), pick(&[0, 1, 1, 2, 3])],
            groups,
        );
        if (0..2).all(|d| g.input[d] + 2 * g.padding[d] >= g.kernel[d]) {
            all.push(g);
        }
    }
    all
}

/// A buffer between two guards of NaN. Reading past an end spoils the result; writing past an end
/// is detected.
struct Walled(Vec<f32>);

impl Walled {
    const WALL: usize = 64;

    fn new(inside: Vec<f32>) -> Self {
        let wall = [f32::NAN; Self::WALL];
        Self([&wall[..], &inside, &wall].concat())
    }

    fn inside(&mut self) -> &mut [f32] {
        let end = self.0.len() - Self::WALL;
        &mut self.0[Self::WALL..end]
    }

    fn open(mut self) -> Vec<f32> {
        let inside = self.inside().to_vec();
        let (left, right) = (&self.0[..Self::WALL], &self.0[Self::WALL + inside.len()..]);
        assert!(left.iter().chain(right).all(|x| x.is_nan()), "written outside the buffer");
        inside
    }
}

/// Computes y, dx and dw from seeded operands, written over `fill` or added to it.
fn run(conv: &Conv, write: Write, fill: f32) -> [Vec<f32>; 3] {
    let g = conv.geometry();
    let lens = [g.input_len(), g.weight_len(), g.output_len()];
    let [mut x, mut w, mut dy] = [0, 1, 2].map(|i| Walled::new(random(i as u64 + 1, lens[i])));
    let [mut dx, mut dw, mut y] = lens.map(|len| Walled::new(vec![fill; len]));
    let needs =
        [conv.forward_scratch(), conv.backward_data_scratch(), conv.backward_weight_scratch()];
    let mut scratch = needs.map(|len| Walled::new(vec![f32::NAN; len]));
    conv.forward(x.inside(), w.inside(), y.inside(), write, scratch[0].inside());
    conv.backward_data(dy.inside(), w.inside(), dx.inside(), write, scratch[1].inside());
    conv.backward_weight(x.inside(), dy.inside(), dw.inside(), write, scratch[2].inside());
    scratch.into_iter().for_each(|scratch| drop(scratch.open()));
    [y.open(), dx.open(), dw.open()]
}

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Direct, Algorithm::Winograd, Algorithm::Fastest];

#[test]
fn every_algorithm_computes_the_definition() {
    for g in geometries() {
        let reference = Conv::with_algorithm(g, Algorithm::Reference);
        let set = run(&reference, Write::Set, f32::NAN);
        let add = run(&reference, Write::Add, 0.5);
        for algorithm in ALGORITHMS {
            for isa in Isa::all() {
                let conv = Conv::with_isa(g, algorithm, isa);
                for (write, fill, expected) in
                    [(Write::Set, f32::NAN, &set), (Write::Add, 0.5, &add)]
                {
                    for (direction, (got, want)) in
                        run(&conv, write, fill).iter().zip(expected).enumerate()
                    {
                        let error = error(got, want);
                        assert!(
                            error < 3e-6,
                            "{error:e} {algorithm:?} {isa:?} {write:?} {direction} {g:?}"
                        );
                    }
                }
            }
        }
    }
}

/// Shapes too large for the definition: several blocks, several parts, shared planes, and
/// incomplete ends of each.
#[test]
fn large_shapes_agree_with_the_direct_convolution() {
    for g in [
        // Planes shared between threads, two blocks.
        geometry(20, [16, 16], [176, 192], [3, 3], [1, 1], [1, 1], 1),
        geometry(37, [18, 15], [16, 24], [3, 3], [1, 1], [1, 1], 1), // sixteen parts
        geometry(5, [33, 31], [64, 80], [3, 3], [1, 1], [1, 1], 1),
        geometry(3, [30, 30], [48, 40], [3, 3], [1, 1], [2, 0], 1),
        geometry(21, [32, 32], [3, 16], [3, 3], [1, 1], [1, 1], 1),
        geometry(2, [64, 62], [3, 32], [7, 7], [2, 2], [3, 3], 1),
    ] {
        let direct = run(&Conv::with_algorithm(g, Algorithm::Direct), Write::Set, f32::NAN);
        for algorithm in [Algorithm::Winograd, Algorithm::Fastest] {
            let other = run(&Conv::with_algorithm(g, algorithm), Write::Set, f32::NAN);
            for (direction, (got, want)) in other.iter().zip(&direct).enumerate() {
                let error = error(got, want);
                assert!(error < 5e-6, "{error:e} {algorithm:?} {direction} {g:?}");
            }
        }
    }
}

#[test]
fn backward_is_the_adjoint_of_forward() {
    let dot = |a: &[f32], b: &[f32]| {
        a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>()
    };
    for g in geometries() {
        let (x, w, dy) =
            (random(1, g.input_len()), random(2, g.weight_len()), random(3, g.output_len()));
        let [y, dx, dw] = run(&Conv::new(g), Write::Set, f32::NAN);
        let sizes = dot(&y, &y).sqrt() * dot(&dy, &dy).sqrt();
        assert!((dot(&y, &dy) - dot(&dx, &x)).abs() <= 1e-5 * sizes, "data {g:?}");
        assert!((dot(&y, &dy) - dot(&dw, &w)).abs() <= 1e-5 * sizes, "weight {g:?}");
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let large = [
        geometry(17, [16, 16], [32, 32], [3, 3], [1, 1], [1, 1], 1),
        geometry(9, [32, 32], [16, 32], [3, 3], [2, 2], [1, 1], 1),
        geometry(4, [8, 8], [176, 192], [3, 3], [1, 1], [1, 1], 1),
        geometry(6, [14, 14], [96, 96], [3, 3], [1, 1], [1, 1], 96),
    ];
    for g in geometries().into_iter().take(30).chain(large) {
        for algorithm in ALGORITHMS {
            let conv = Conv::with_algorithm(g, algorithm);
            let bits = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| run(&conv, Write::Set, f32::NAN)).map(|out| out.map_bits())
            };
            let one = bits(1);
            assert!(one == bits(2) && one == bits(7) && one == bits(2), "{algorithm:?} {g:?}");
        }
    }
}

trait Bits {
    fn map_bits(self) -> Vec<u32>;
}

impl Bits for Vec<f32> {
    fn map_bits(self) -> Vec<u32> {
        self.into_iter().map(f32::to_bits).collect()
    }
}

#[test]
fn a_packed_weight_gives_the_same_bits() {
    for g in geometries() {
        for algorithm in ALGORITHMS {
            let conv = Conv::with_algorithm(g, algorithm);
            let [y, ..] = run(&conv, Write::Set, f32::NAN);
            let mut scratch = vec![f32::NAN; conv.forward_scratch()];
            let mut packed = vec![f32::NAN; conv.packed_len()];
            conv.pack_forward(&random(2, g.weight_len()), &mut packed, &mut scratch);
            let mut again = vec![f32::NAN; g.output_len()];
            conv.forward_packed(
                &random(1, g.input_len()),
                &packed,
                &mut again,
                Write::Set,
                &mut scratch,
            );
            assert!(y.map_bits() == again.map_bits(), "{algorithm:?} {g:?}");
        }
    }
}

#[test]
#[should_panic(expected = "weight of")]
fn a_weight_of_the_wrong_size_panics() {
    let conv = Conv::new(geometry(1, [4, 4], [2, 2], [3, 3], [1, 1], [1, 1], 1));
    conv.forward(&[0.0; 32], &[0.0; 35], &mut [0.0; 32], Write::Set, &mut [0.0; 4096]);
}
