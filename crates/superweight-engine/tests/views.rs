//! Compares bank views with their definition, forward and backward.

mod common;

use common::{dot, hash, hashed, on_every_device, relative_error, with_cuda};
use superweight_engine::{
    BankView, BankViewSet, BankViews, Block, CpuDevice, Device, Element, Error, LayoutBuilder,
    Memory, Precision, RankOne, Region, Space, ohwi_to_oihw,
};

fn pick(seed: u32, n: u32, from: usize, to: usize) -> usize {
    from + ((hash(seed, n) + 1.0) / 2.0 * (to - from) as f32) as usize
}

/// Two banks with views of all kinds at random positions, most of them overlapping. The tensors of
/// a bank are adjacent, like the templates of a mix.
struct Example<D: Device> {
    memory: Memory<D>,
    views: BankViews<D>,
}

const BANKS: [&str; 2] = ["first", "second"];

fn example<D: Device>(device: &D, seed: u32) -> Example<D> {
    let mut shapes = [vec![], vec![]];
    for (bank, shapes) in (0u32..).zip(&mut shapes) {
        for n in 0..pick(seed, bank, 3, 9) as u32 {
            let pick = |what, from, to| pick(seed, 100 + 100 * bank + 10 * n + what, from, to);
            let shape = Block {
                rows: pick(0, 1, 40),
                positions: [1, 9][pick(1, 0, 2)],
                cols: pick(2, 1, 40),
            };
            let from = match pick(3, 0, 3) {
                0 | 2 => [shape.rows, shape.cols],
                _ => [pick(4, 1, shape.rows + 1), pick(5, 1, shape.cols + 1)],
            };
            shapes.push((shape, from));
        }
    }
    let mut builder = LayoutBuilder::new();
    for (name, shapes) in BANKS.iter().zip(&shapes) {
        let most = shapes.iter().map(|(shape, from)| from[0] * from[1] * shape.positions).max();
        builder.parameter(*name, most.unwrap() * 5 / 4 + 3).unwrap();
        builder
            .parameter(format!("{name} tensors"), shapes.iter().map(|(shape, _)| shape.len()).sum())
            .unwrap();
        let factors = shapes.iter().map(|(shape, _)| shape.rows + shape.cols).sum();
        builder.parameter(format!("{name} factors"), factors).unwrap();
    }
    let layout = builder.finish(device);
    let set = |(name, shapes): (&&str, &Vec<(Block, [usize; 2])>)| {
        let bank = layout.parameter(name).unwrap();
        let mut next = layout.parameter(&format!("{name} tensors")).unwrap();
        let mut factor = layout.parameter(&format!("{name} factors")).unwrap();
        let mut view = |(n, (shape, from)): (usize, &(Block, [usize; 2]))| {
            let tensor = Region { len: shape.len(), ..next };
            next.offset += shape.len();
            let rest = bank.len - from[0] * from[1] * shape.positions;
            let rows = Region { len: shape.rows, ..factor };
            let cols = Region { offset: factor.offset + rows.len, len: shape.cols, ..factor };
            factor.offset = cols.offset + cols.len;
            // Every second slice has factors.
            let has = *from == [shape.rows, shape.cols] && n % 2 == 0;
            let factors = has.then_some(RankOne { rows, cols });
            BankView {
                tensor,
                shape: *shape,
                at: pick(seed, 1000 + n as u32, 0, rest + 1),
                from: *from,
                factors,
            }
        };
        let views = shapes.iter().enumerate().map(&mut view).collect();
        BankViewSet { name: (*name).into(), bank, views }
    };
    let sets = BANKS.iter().zip(&shapes).map(set).collect();
    let mut memory = Memory::new(device, layout.clone(), 0).unwrap();
    for (i, (name, region)) in layout.parameters().enumerate() {
        memory.set_parameter(name, &hashed(seed * 10 + i as u32, region.len)).unwrap();
        memory.set_gradient(name, &hashed(seed * 10 + 5 + i as u32, region.len)).unwrap();
    }
    Example { memory, views: BankViews::new(device, sets).unwrap() }
}

/// PyTorch's definition of `interpolate(mode="bilinear", align_corners=False)`, in f64: the two
/// source positions of output `n`, and the weight of the second.
fn around(n: usize, from: usize, to: usize) -> ([usize; 2], f64) {
    let place = ((n as f64 + 0.5) * from as f64 / to as f64 - 0.5).max(0.0);
    let lower = place.floor() as usize;
    ([lower, (lower + 1).min(from - 1)], place - place.floor())
}

/// The definition, element by element: interpolates an OIHW matrix, converts it to memory order,
/// and multiplies by row and column factors.
fn naive(view: &BankView, bank: &[f32], factors: [&[f32]; 2]) -> Vec<f32> {
    let Block { rows, positions, cols } = view.shape;
    let [from, to] = [[view.from[0], view.from[1] * positions], [rows, cols * positions]];
    let at = |row: usize, column: usize| f64::from(bank[view.at + row * from[1] + column]);
    let mut values = vec![];
    for r in 0..rows {
        for p in 0..positions {
            for i in 0..cols {
                let ([r0, r1], wr) = around(r, from[0], to[0]);
                let ([c0, c1], wc) = around(i * positions + p, from[1], to[1]);
                let line = |row| (1.0 - wc) * at(row, c0) + wc * at(row, c1);
                let factor = match view.factors {
                    Some(_) => f64::from(factors[0][r]) * f64::from(factors[1][i]),
                    None => 1.0,
                };
                values.push((factor * ((1.0 - wr) * line(r0) + wr * line(r1))) as f32);
            }
        }
    }
    values
}

/// Row and column factors of a view; empty if it has none.
fn factors<D: Device>(memory: &Memory<D>, view: &BankView) -> [Vec<f32>; 2] {
    view.factors.map_or([vec![], vec![]], |of| [of.rows, of.cols].map(|region| memory.read(region)))
}

#[test]
fn views_match_the_definition() {
    on_every_device!(|device| {
        let mut kinds = [0; 3];
        for seed in 0..40 {
            let Example { mut memory, views } = example(device, seed);
            memory.apply_views(&views).unwrap();
            for set in views.sets() {
                let bank = memory.read(set.bank);
                for view in &set.views {
                    let [rows, cols] = factors(&memory, view);
                    let (found, expected) =
                        (memory.read(view.tensor), naive(view, &bank, [&rows, &cols]));
                    let is_slice = view.is_plain() && view.factors.is_none();
                    kinds[if is_slice { 0 } else { 1 + usize::from(view.is_plain()) }] += 1;
                    match is_slice {
                        true => assert_eq!(found, expected, "seed {seed}: {view:?}"),
                        false => {
                            let error = relative_error(&found, &expected);
                            assert!(error < 1e-6, "seed {seed}: {view:?}: {error:.2e}");
                        }
                    }
                }
            }
        }
        assert!(kinds.iter().all(|kind| *kind > 50), "{kinds:?}");
    });
}

/// A device with a bank called "bank" and one tensor per view (shape, first element, source rows
/// and columns).
fn small<D: Device>(
    device: &D,
    bank: &[f32],
    views: &[(Block, usize, [usize; 2])],
) -> (Memory<D>, BankViews<D>) {
    let mut builder = LayoutBuilder::new();
    builder.parameter("bank", bank.len()).unwrap();
    for (i, (shape, ..)) in views.iter().enumerate() {
        builder.parameter(format!("tensor {i}"), shape.len()).unwrap();
    }
    let layout = builder.finish(device);
    let view = |(i, &(shape, at, from)): (usize, &(Block, usize, [usize; 2]))| BankView {
        tensor: layout.parameter(&format!("tensor {i}")).unwrap(),
        shape,
        at,
        from,
        factors: None,
    };
    let set = BankViewSet {
        name: "small".into(),
        bank: layout.parameter("bank").unwrap(),
        views: views.iter().enumerate().map(view).collect(),
    };
    let views = BankViews::new(device, vec![set]).unwrap();
    let mut memory = Memory::new(device, layout, 0).unwrap();
    memory.set_parameter("bank", bank).unwrap();
    (memory, views)
}

/// Slices keep every bit, also of NaN. They are converted from OIHW to OHWI.
#[test]
fn a_slice_is_copied_exactly() {
    on_every_device!(|device| {
        let mut bank = hashed(3, 200);
        [bank[7], bank[12], bank[30]] = [-0.0, f32::NAN, f32::INFINITY];
        let shape = |rows, positions, cols| Block { rows, positions, cols };
        let all = [
            (shape(5, 9, 4), 2, [5, 4]),
            (shape(20, 1, 8), 5, [20, 8]),
            (shape(1, 1, 1), 199, [1, 1]),
        ];
        let (mut memory, views) = small(device, &bank, &all);
        memory.apply_views(&views).unwrap();
        for view in &views.sets()[0].views {
            let found = memory.read(view.tensor);
            let Block { rows, positions, cols } = view.shape;
            let found = ohwi_to_oihw(&found, [rows, cols, positions, 1]);
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&found), bits(&bank[view.at..view.at + view.shape.len()]));
        }
    });
}

/// Expected values of the formula in `around`:
///
/// ```python
/// m = torch.tensor([[1., -2., 4.], [8., 16., -32.]])
/// F.interpolate(m[None, None], size=(4, 7), mode="bilinear", align_corners=False)
/// ```
#[test]
fn interpolation_matches_pytorch() {
    #[rustfmt::skip]
    let expected = [
        1.0, 0.5714286, -0.7142857, -2.0, 0.5714286, 3.142857, 4.0,
        2.75, 2.714286, 2.607143, 2.5, -0.7142857, -3.928571, -5.0,
        6.25, 7.0, 9.25, 11.5, -3.285714, -18.07143, -23.0,
        8.0, 9.142857, 12.57143, 16.0, -4.571429, -25.14286, -32.0,
    ];
    on_every_device!(|device| {
        let shape = Block { rows: 4, positions: 1, cols: 7 };
        let (mut memory, views) =
            small(device, &[1.0, -2.0, 4.0, 8.0, 16.0, -32.0], &[(shape, 0, [2, 3])]);
        memory.apply_views(&views).unwrap();
        assert!(relative_error(&memory.parameter("tensor 0").unwrap(), &expected) < 1e-6);
    });
}

/// ⟨dW, J·x⟩ = ⟨Jᵀ·dW, x⟩, and earlier gradients are overwritten.
#[test]
fn views_backward_is_the_adjoint() {
    on_every_device!(|device| {
        for seed in 100..140 {
            let Example { mut memory, views } = example(device, seed);
            memory.apply_views(&views).unwrap();
            memory.apply_views_backward(&views).unwrap();
            for set in views.sets() {
                let gradient = |region: Region| Region { space: Space::Gradients, ..region };
                let both = |region| (memory.read(region), memory.read(gradient(region)));
                let (bank, dbank) = both(set.bank);
                let of_tensors: f64 = set
                    .views
                    .iter()
                    .map(|view| both(view.tensor))
                    .map(|(w, dw)| dot(&w, &dw))
                    .sum();
                let of_bank = dot(&bank, &dbank);
                let scale = dot(&dbank, &dbank).sqrt() * dot(&bank, &bank).sqrt();
                assert!(
                    (of_tensors - of_bank).abs() < 1e-6 * scale,
                    "seed {seed}: {of_tensors} {of_bank}"
                );
                // A tensor is linear in its factors too.
                for view in &set.views {
                    let Some(RankOne { rows, cols }) = view.factors else { continue };
                    let (w, dw) = both(view.tensor);
                    for (x, dx) in [rows, cols].map(both) {
                        let (of_tensor, of_factors) = (dot(&w, &dw), dot(&x, &dx));
                        let scale = dot(&dx, &dx).sqrt() * dot(&x, &x).sqrt();
                        assert!(
                            (of_tensor - of_factors).abs() < 1e-6 * scale,
                            "seed {seed}: {view:?}"
                        );
                    }
                }
                for (n, d) in dbank.iter().enumerate() {
                    let reads =
                        |view: &BankView| (view.at..view.at + view.source_len()).contains(&n);
                    assert!(*d == 0.0 || set.views.iter().any(reads), "no view reads element {n}");
                }
            }
        }
    });
}

/// The adjoint test checks a sum; this checks every element.
#[test]
fn every_bank_element_has_its_own_gradient() {
    on_every_device!(|device| {
        let shape = |rows, positions, cols| Block { rows, positions, cols };
        let all = [
            (shape(6, 9, 5), 3, [2, 2]),
            (shape(4, 1, 7), 20, [4, 3]),
            (shape(3, 9, 2), 10, [3, 2]),
        ];
        let (mut memory, views) = small(device, &[0.0; 70], &all);
        let upstream: Vec<Vec<f32>> =
            all.iter().map(|(shape, ..)| hashed(8, shape.len())).collect();
        for (i, values) in upstream.iter().enumerate() {
            memory.set_gradient(&format!("tensor {i}"), values).unwrap();
        }
        memory.apply_views_backward(&views).unwrap();
        let found = memory.gradient("bank").unwrap();
        let slope = |n: usize| {
            let bank: Vec<f32> = (0..70).map(|i| f32::from(u8::from(i == n))).collect();
            let tensors = views.sets()[0].views.iter().map(|view| naive(view, &bank, [&[], &[]]));
            tensors.zip(&upstream).map(|(w, dw)| dot(&w, dw)).sum::<f64>() as f32
        };
        let expected: Vec<f32> = (0..70).map(slope).collect();
        for (n, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!((found - expected).abs() < 2e-6, "element {n}: {found} {expected}");
        }
        assert!(expected.iter().filter(|d| **d == 0.0).count() > 3, "some elements have no view");
    });
}

/// The same for factors: checks each row and column factor by itself.
#[test]
fn every_factor_has_its_own_gradient() {
    on_every_device!(|device| {
        let mut checked = 0;
        for seed in 400..420 {
            let Example { mut memory, views } = example(device, seed);
            memory.apply_views_backward(&views).unwrap();
            let gradient = |of: Region| memory.read(Region { space: Space::Gradients, ..of });
            for set in views.sets() {
                let bank = memory.read(set.bank);
                for view in &set.views {
                    let Some(of) = view.factors else { continue };
                    let ([rows, cols], dw) = (factors(&memory, view), gradient(view.tensor));
                    let one = |len: usize, n: usize| -> Vec<f32> {
                        (0..len).map(|i| f32::from(u8::from(i == n))).collect()
                    };
                    let of_row = |r| naive(view, &bank, [&one(rows.len(), r), &cols]);
                    let of_col = |c| naive(view, &bank, [&rows, &one(cols.len(), c)]);
                    let expected: Vec<f32> =
                        (0..rows.len()).map(|r| dot(&of_row(r), &dw) as f32).collect();
                    assert!(
                        relative_error(&gradient(of.rows), &expected) < 1e-6,
                        "{seed}: {view:?}"
                    );
                    let expected: Vec<f32> =
                        (0..cols.len()).map(|c| dot(&of_col(c), &dw) as f32).collect();
                    assert!(
                        relative_error(&gradient(of.cols), &expected) < 1e-6,
                        "{seed}: {view:?}"
                    );
                    checked += 1;
                }
            }
        }
        assert!(checked > 30, "{checked}");
    });
}

/// Everything that views write.
fn written<D: Device>(device: &D, seed: u32) -> Vec<Vec<f32>> {
    let Example { mut memory, views } = example(device, seed);
    memory.apply_views(&views).unwrap();
    memory.apply_views_backward(&views).unwrap();
    all_written(&memory)
}

fn all_written<D: Device>(memory: &Memory<D>) -> Vec<Vec<f32>> {
    let tensors = BANKS.map(|bank| memory.parameter(&format!("{bank} tensors")).unwrap());
    let factors = BANKS.map(|bank| memory.gradient(&format!("{bank} factors")).unwrap());
    let banks = BANKS.map(|bank| memory.gradient(bank).unwrap());
    tensors.into_iter().chain(banks).chain(factors).collect()
}

#[test]
fn views_do_not_depend_on_the_number_of_threads() {
    for seed in [7, 8, 9] {
        let run = |threads| {
            let all = written(&CpuDevice::new(threads).unwrap(), seed);
            all.iter().flatten().map(|v| v.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(2));
        assert_eq!(run(1), run(7));
    }
}

/// In both precisions: banks and their tensors are always f32.
#[test]
fn the_gpu_matches_the_cpu() {
    for precision in [Precision::F32, Precision::Bf16] {
        with_cuda(precision, |device| {
            for seed in 200..220 {
                let (found, expected) = (written(device, seed), written(&common::device(), seed));
                for (what, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    let error = relative_error(found, expected);
                    assert!(error < 1e-6, "seed {seed}, {what}: {error:.2e}");
                }
                assert_eq!(found, written(device, seed), "seed {seed}: the same bits again");
            }
        });
    }
}

#[test]
fn a_recording_gives_the_same_result() {
    on_every_device!(|device| {
        let Example { mut memory, views } = example(device, 300);
        let recording = device.record(&mut || {
            memory.apply_views(&views)?;
            memory.apply_views_backward(&views)
        });
        if let Some(recording) = recording.unwrap() {
            device.replay(&recording).unwrap();
            device.finish().unwrap();
            assert_eq!(all_written(&memory), written(device, 300));
        }
    });
}

#[test]
fn inconsistent_views_are_rejected() {
    let device = CpuDevice::new(1).unwrap();
    let Example { views, memory } = example(&device, 11);
    let error = |damage: &dyn Fn(&mut Vec<BankViewSet>)| {
        let mut sets = views.sets().to_vec();
        damage(&mut sets);
        match BankViews::new(&device, sets) {
            Err(error @ Error::BankViews { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let expect = |damage: &dyn Fn(&mut Vec<BankViewSet>), parts: &[&str]| {
        let error = error(damage);
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    expect(
        &|s| s[0].bank.space = Space::Gradients,
        &["`first`", "the bank is not a region of f32 parameters"],
    );
    expect(
        &|s| s[0].bank.element = Element::Weight,
        &["`first`", "the bank is not a region of f32 parameters"],
    );
    expect(
        &|s| s[1].views[2].tensor.space = Space::State,
        &["`second`", "view 2", "the tensor is not a region of f32 parameters"],
    );
    expect(
        &|s| s[1].views[2].tensor.element = Element::Weight,
        &["`second`", "view 2", "f32 parameters"],
    );
    expect(&|s| s[0].views[1].shape.cols = 0, &["`first`", "view 1", "has no elements"]);
    expect(&|s| s[0].views[1].tensor.len += 1, &["`first`", "view 1", "not the size of"]);
    expect(&|s| s[0].views[0].from[1] = 0, &["view 0", "no rows or columns"]);
    expect(&|s| s[0].views[0].from[0] = s[0].views[0].shape.rows + 1, &["view 0", "cannot shrink"]);
    expect(&|s| s[0].views[0].from[1] = s[0].views[0].shape.cols + 1, &["view 0", "cannot shrink"]);
    expect(&|s| s[1].views[0].at = s[1].bank.len, &["`second`", "view 0", "exceed the bank"]);
    expect(&|s| s[1].views[0].at = usize::MAX, &["`second`", "view 0", "exceed the bank"]);
    expect(&|s| s[1].bank.len = 0, &["`second`", "the bank is not"]);
    fn with_factors(sets: &mut [BankViewSet]) -> (&mut BankView, RankOne) {
        let mut all = sets.iter_mut().flat_map(|set| &mut set.views);
        let view = all.find(|view| view.factors.is_some()).unwrap();
        let factors = view.factors.unwrap();
        (view, factors)
    }
    let other = |change: fn(&mut RankOne)| {
        move |s: &mut Vec<BankViewSet>| {
            let (view, mut factors) = with_factors(s);
            change(&mut factors);
            view.factors = Some(factors);
        }
    };
    expect(&|s| with_factors(s).0.from[0] -= 1, &["interpolation cannot have factors"]);
    expect(&other(|of| of.rows.len += 1), &["row factors and", "do not match"]);
    expect(&other(|of| of.cols.len -= 1), &["row factors and", "do not match"]);
    expect(
        &other(|of| of.cols.space = Space::State),
        &["the factors are not regions of f32 parameters"],
    );
    expect(
        &other(|of| of.cols.offset = of.rows.offset),
        &["a factor of view", "overlaps a factor of view"],
    );
    let twice = |s: &mut Vec<BankViewSet>| {
        let view = s[0].views[0];
        s[1].views.push(BankView { at: 0, from: [1, 1], ..view });
    };
    expect(&twice, &["the tensor of view", "overlaps the tensor of view", "`second`", "`first`"]);
    let over_a_bank = |s: &mut Vec<BankViewSet>| s[0].views[0].tensor.offset = s[1].bank.offset;
    expect(&over_a_bank, &["the tensor of view 0", "overlaps", "the bank"]);
    let same_bank = |s: &mut Vec<BankViewSet>| {
        s[1].bank = s[0].bank;
        s[1].views.clear();
    };
    expect(&same_bank, &["the bank overlaps the bank"]);

    // A memory that is too small is an error too.
    let mut builder = LayoutBuilder::new();
    builder.parameter("bank", 3).unwrap();
    let mut other = Memory::new(&device, builder.finish(&device), 0).unwrap();
    assert!(other.layout().parameter_len < memory.layout().parameter_len);
    let too_small =
        |result| matches!(result, Err(Error::MemoryTooSmall { space: "parameter", .. }));
    assert!(too_small(other.apply_views(&views)) && too_small(other.apply_views_backward(&views)));
}
