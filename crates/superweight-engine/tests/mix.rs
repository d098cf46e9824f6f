//! Compares mixing with its definition, forward and backward.

mod common;

use common::{dot, hash, hashed, on_every_device, relative_error};
use superweight_engine::{
    Block, CpuDevice, Device, Error, LayoutBuilder, Memory, Mix, MixFactors, MixGradients,
    MixOutput, MixSet, MixUse, Region,
};

fn pick(seed: u32, n: u32, from: usize, to: usize) -> usize {
    from + ((hash(seed, n) + 1.0) / 2.0 * (to - from) as f32) as usize
}

/// Mixed tensors of an example, and the parameters they are computed from.
const TENSORS: [&str; 6] = ["large", "small", "lone", "one", "two", "three"];
const SOURCES: [&str; 9] = [
    "templates",
    "coefficients",
    "single",
    "patterned",
    "patterns",
    "gains",
    "patterned_once",
    "patterns_once",
    "gains_once",
];

/// Two layers cut into cells of one set, with hard sharing where both have a cell; a third layer
/// that is a single template; and two sets whose cells have patterns in common and separate gains.
struct Example<D: Device> {
    memory: Memory<D>,
    sets: Vec<MixSet>,
    mix: Mix<D>,
}

fn example<D: Device>(device: &D, seed: u32) -> Example<D> {
    // Half of the examples have multiples of four or eight channels, which devices may copy in
    // vectors, and more cells.
    let [by, most] = [[1, 20], [4, 3], [1, 20], [8, 5]][seed as usize % 4];
    let block = Block {
        rows: pick(seed, 1, 1, 9),
        positions: [1, 9][pick(seed, 2, 0, 2)],
        cols: by * pick(seed, 3, 1, most),
    };
    let k = if seed.is_multiple_of(3) { pick(seed, 4, 30, 80) } else { pick(seed, 4, 2, 24) };
    let large = [pick(seed, 5, 1, 30), by * pick(seed, 6, 1, 60 / by.min(3))];
    let small = [pick(seed, 7, 1, large[0] + 1), by * pick(seed, 8, 1, large[1] / by + 1)];
    let grid = [large[0].div_ceil(block.rows), large[1].div_ceil(block.cols)];
    let lone = Block { rows: 5, positions: 1, cols: 7 };

    let mut builder = LayoutBuilder::new();
    for (name, len) in [
        ("templates", k * block.len()),
        ("coefficients", grid[0] * grid[1] * k),
        ("large", large[0] * large[1] * block.positions),
        ("small", small[0] * small[1] * block.positions),
        ("single", lone.len()),
        ("lone", lone.len()),
        ("probe", 2 * grid[0] * grid[1] * k),
        ("patterned", k * block.len()),
        ("patterns", grid[0] * grid[1] * k),
        ("gains", 2 * k),
        ("products", 2 * grid[0] * grid[1] * k),
        ("one", large[0] * large[1] * block.positions),
        ("two", large[0] * large[1] * block.positions),
        ("patterned_once", k * block.len()),
        ("patterns_once", grid[0] * grid[1] * k),
        ("gains_once", k),
        ("products_once", grid[0] * grid[1] * k),
        ("three", large[0] * large[1] * block.positions),
        ("probe_gains", 2 * k),
    ] {
        builder.parameter(name, len).unwrap();
    }
    let layout = builder.finish(device);
    let region = |name: &str| layout.parameter(name).unwrap();
    let mut uses = vec![];
    for cell in 0..grid[0] * grid[1] {
        let at = [cell / grid[1] * block.rows, cell % grid[1] * block.cols];
        for (name, shape, factor) in [("large", large, 0.5), ("small", small, -1.5)] {
            if at[0] < shape[0] && at[1] < shape[1] {
                let extent = [block.rows.min(shape[0] - at[0]), block.cols.min(shape[1] - at[1])];
                uses.push(MixUse {
                    cell,
                    tensor: region(name),
                    inputs: shape[1],
                    at,
                    extent,
                    factor,
                });
            }
        }
    }
    let cells = grid[0] * grid[1];
    // Set `patterned` computes "one" and "two", with one gain each; "patterned once" computes
    // "three".
    let patterned = |name: &str, suffix: &str, tensors: &[&str]| {
        let use_of = |(cell, tensor): (usize, &str)| {
            let at = [cell % cells / grid[1] * block.rows, cell % grid[1] * block.cols];
            let extent = [block.rows.min(large[0] - at[0]), block.cols.min(large[1] - at[1])];
            MixUse { cell, tensor: region(tensor), inputs: large[1], at, extent, factor: 0.7 }
        };
        let all = tensors.iter().enumerate();
        let uses =
            all.flat_map(|(gain, name)| (0..cells).map(move |cell| (gain * cells + cell, *name)));
        let region = |word: &str| region(&format!("{word}{suffix}"));
        MixSet {
            name: name.into(),
            block,
            blocks: region("patterned"),
            coefficients: Some(region("products")),
            factors: Some(MixFactors {
                patterns: region("patterns"),
                gains: region("gains"),
                rows: (0..tensors.len() * cells)
                    .map(|row| [row % cells, row / cells].map(|n| n as u32))
                    .collect(),
            }),
            uses: uses.map(use_of).collect(),
            gradients: MixGradients::Both,
            weight_decay: 0.0,
        }
    };
    let sets = vec![
        MixSet {
            name: "grid".into(),
            block,
            blocks: region("templates"),
            coefficients: Some(region("coefficients")),
            factors: None,
            uses,
            gradients: MixGradients::Both,
            weight_decay: 0.0,
        },
        MixSet {
            name: "single".into(),
            block: lone,
            blocks: region("single"),
            coefficients: None,
            factors: None,
            uses: vec![MixUse {
                cell: 0,
                tensor: region("lone"),
                inputs: lone.cols,
                at: [0, 0],
                extent: [lone.rows, lone.cols],
                factor: 2.0,
            }],
            gradients: MixGradients::Both,
            weight_decay: 0.0,
        },
        patterned("patterned", "", &["one", "two"]),
        patterned("patterned once", "_once", &["three"]),
    ];
    let mix = Mix::new(device, sets.clone()).unwrap();
    let mut memory = Memory::new(device, layout.clone(), mix.scratch_bytes()).unwrap();
    for (i, (name, region)) in layout.parameters().enumerate() {
        memory.set_parameter(name, &hashed(seed * 100 + i as u32, region.len)).unwrap();
    }
    Example { memory, sets, mix }
}

/// The definition in f64: values of each tensor after mixing, element by element.
fn naive<D: Device>(memory: &Memory<D>, set: &MixSet, used: &MixUse) -> Vec<(usize, f32)> {
    let (blocks, mut alpha) =
        (memory.read(set.blocks), set.coefficients.map(|region| memory.read(region)));
    let (len, k) = (set.block.len(), set.count());
    if let Some(MixFactors { patterns, gains, rows }) = &set.factors {
        let (patterns, gains) = (memory.read(*patterns), memory.read(*gains));
        let places = rows
            .iter()
            .flat_map(|&[p, g]| (0..k).map(move |t| [p as usize * k + t, g as usize * k + t]));
        alpha = Some(places.map(|[p, g]| patterns[p] * gains[g]).collect());
    }
    let mut values = vec![];
    for r in 0..used.extent[0] {
        for p in 0..set.block.positions {
            for c in 0..used.extent[1] {
                let inside = (r * set.block.positions + p) * set.block.cols + c;
                let coefficient =
                    |t: usize| alpha.as_ref().map_or(1.0, |a| f64::from(a[used.cell * k + t]));
                let cell: f64 =
                    (0..k).map(|t| coefficient(t) * f64::from(blocks[t * len + inside])).sum();
                let at =
                    ((used.at[0] + r) * set.block.positions + p) * used.inputs + used.at[1] + c;
                values.push((at, (f64::from(used.factor) * cell) as f32));
            }
        }
    }
    values
}

#[test]
fn mixing_matches_the_definition() {
    on_every_device!(|device| {
        for seed in 0..60 {
            let Example { mut memory, sets, mix } = example(device, seed);
            memory.mix(&mix, MixOutput::AllCopies).unwrap();
            for set in &sets {
                // All tiles together, because a tile of a single element may cancel to zero.
                let (mut found, mut expected) = (vec![], vec![]);
                for used in &set.uses {
                    let tensor = memory.read(used.tensor);
                    for (at, value) in naive(&memory, set, used) {
                        found.push(tensor[at]);
                        expected.push(value);
                    }
                }
                let error = relative_error(&found, &expected);
                assert!(error < 1e-6, "seed {seed}, {}: {error:.2e}", set.name);
            }
        }
    });
}

/// Computes ⟨dW, dW/dp·δ⟩ in two ways. Mixing is linear in the templates and in the coefficients.
#[test]
fn mixing_backward_is_the_adjoint() {
    on_every_device!(|device| {
        for seed in 100..160 {
            let Example { mut memory, mix, .. } = example(device, seed);
            let names = TENSORS;
            // dL/dW as a graph would leave it; L = ⟨dW, W⟩.
            let upstream: Vec<Vec<f32>> = names
                .iter()
                .map(|name| hashed(!seed, memory.layout().parameter(name).unwrap().len))
                .collect();
            for (name, values) in names.iter().zip(&upstream) {
                memory.set_gradient(name, values).unwrap();
            }
            // Backward reads the coefficients that are products.
            memory.mix(&mix, MixOutput::AllCopies).unwrap();
            memory.mix_backward(&mix).unwrap();
            for tensor in SOURCES {
                let gradient = memory.gradient(tensor).unwrap();
                let before = memory.parameter(tensor).unwrap();
                let direction = hashed(seed * 7, before.len());
                let mut loss = |step: f32| -> f64 {
                    let moved: Vec<f32> =
                        before.iter().zip(&direction).map(|(p, d)| p + step * d).collect();
                    memory.set_parameter(tensor, &moved).unwrap();
                    memory.mix(&mix, MixOutput::AllCopies).unwrap();
                    let value = |(name, upstream): (&&str, &Vec<f32>)| -> f64 {
                        dot(&memory.parameter(name).unwrap(), upstream)
                    };
                    names.iter().zip(&upstream).map(value).sum()
                };
                // Exact up to rounding: L is linear in each tensor.
                let slope = (loss(1.0) - loss(-1.0)) / 2.0;
                loss(0.0);
                let expected: f64 = gradient
                    .iter()
                    .zip(&direction)
                    .map(|(g, d)| f64::from(*g) * f64::from(*d))
                    .sum();
                let scale: f64 = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
                assert!(
                    (slope - expected).abs() < 1e-4 * scale.max(1e-3),
                    "seed {seed} {tensor}: {slope} {expected}"
                );
            }
        }
    });
}

/// With weight decay λ the gradient is that of dL/dW + λ·W.
#[test]
fn weight_decay_of_tensors_reaches_their_templates() {
    on_every_device!(|device| {
        for seed in 400..430 {
            let Example { mut memory, sets, mix } = example(device, seed);
            let weight_decay = 0.3;
            let decayed = sets.iter().map(|set| MixSet { weight_decay, ..set.clone() }).collect();
            let decayed = Mix::new(memory.device(), decayed).unwrap();
            assert_eq!(decayed.scratch_bytes(), mix.scratch_bytes());
            memory.mix(&mix, MixOutput::AllCopies).unwrap();
            let tensors = TENSORS;
            let upstream = tensors.map(|name| {
                let weight = memory.parameter(name).unwrap();
                let given = hashed(!seed, weight.len());
                memory.set_gradient(name, &given).unwrap();
                given.iter().zip(&weight).map(|(g, w)| g + weight_decay * w).collect::<Vec<f32>>()
            });
            let made_of = [
                "templates",
                "coefficients",
                "single",
                "patterned",
                "patterns",
                "gains",
                "patterned_once",
            ];
            memory.mix_backward(&decayed).unwrap();
            let found = made_of.map(|name| memory.gradient(name).unwrap());
            for (name, values) in tensors.iter().zip(&upstream) {
                memory.set_gradient(name, values).unwrap();
            }
            memory.mix_backward(&mix).unwrap();
            for (name, found) in made_of.iter().zip(&found) {
                let error = relative_error(found, &memory.gradient(name).unwrap());
                assert!(error < 1e-5, "seed {seed}, {name}: {error:.2e}");
            }
        }
    });
}

/// The gradients of two subsets of the uses add up to the gradient of all uses. Parameters that no
/// use reads get gradient zero, whatever the gradient was before.
#[test]
fn gradients_of_two_subsets_of_uses_add_up() {
    on_every_device!(|device| {
        for seed in 500..560 {
            let Example { mut memory, sets, mix } = example(device, seed);
            let first =
                ["large", "one"].map(|name| memory.layout().parameter(name).unwrap().offset);
            let parts = [true, false].map(|of_first| {
                let some = |set: &MixSet| {
                    let mut set = MixSet { weight_decay: 0.3, ..set.clone() };
                    set.uses.retain(|used| first.contains(&used.tensor.offset) == of_first);
                    set
                };
                Mix::new(device, sets.iter().map(some).collect()).unwrap()
            });
            let all = sets.iter().map(|set| MixSet { weight_decay: 0.3, ..set.clone() }).collect();
            let all = Mix::new(device, all).unwrap();
            assert!(
                parts.iter().all(|part| part.scratch_bytes() <= mix.scratch_bytes()),
                "seed {seed}"
            );
            let tensors = TENSORS;
            memory.mix(&all, MixOutput::AllCopies).unwrap();
            let whole = tensors.map(|name| memory.parameter(name).unwrap());
            tensors.iter().for_each(|name| {
                let len = memory.layout().parameter(name).unwrap().len;
                memory.set_parameter(name, &vec![0.0; len]).unwrap();
                memory.set_gradient(name, &hashed(!seed, len)).unwrap();
            });
            parts.iter().for_each(|part| memory.mix(part, MixOutput::AllCopies).unwrap());
            for (name, whole) in tensors.iter().zip(&whole) {
                // A device may sum in another order if there are fewer uses.
                let error = relative_error(&memory.parameter(name).unwrap(), whole);
                assert!(error < 1e-6, "seed {seed}, {name}: {error:.2e}");
            }
            let mut gradients = |mix: &Mix<_>| {
                memory.mix_backward(mix).unwrap();
                SOURCES.map(|name| memory.gradient(name).unwrap())
            };
            let expected = gradients(&all);
            let [one, other] = [gradients(&parts[0]), gradients(&parts[1])];
            for (i, name) in SOURCES.iter().enumerate() {
                let sum: Vec<f32> = one[i].iter().zip(&other[i]).map(|(a, b)| a + b).collect();
                let error = relative_error(&sum, &expected[i]);
                assert!(error < 1e-5, "seed {seed}, {name}: {error:.2e}");
            }
            let nothing = |values: &[f32]| values.iter().all(|v| *v == 0.0);
            assert!(nothing(&one[2]) && nothing(&one[6]) && nothing(&one[8]), "seed {seed}");
            assert!(!nothing(&one[0]) && !nothing(&other[2]) && !nothing(&other[6]), "seed {seed}");
        }
    });
}

#[test]
fn mixing_does_not_depend_on_the_number_of_threads() {
    let run = |threads| {
        let Example { mut memory, mix, .. } = example(&CpuDevice::new(threads).unwrap(), 7);
        memory.mix(&mix, MixOutput::AllCopies).unwrap();
        for name in ["large", "small", "lone", "one", "two", "three"] {
            let weights = memory.parameter(name).unwrap();
            memory.set_gradient(name, &weights).unwrap();
        }
        memory.mix_backward(&mix).unwrap();
        ["large", "small", "one", "two"]
            .map(|n| memory.parameter(n).unwrap())
            .into_iter()
            .chain(
                ["templates", "coefficients", "patterned", "patterns", "gains"]
                    .map(|n| memory.gradient(n).unwrap()),
            )
            .map(|values| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
            .collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(2));
    assert_eq!(run(1), run(7));
}

#[test]
fn inconsistent_sets_are_rejected() {
    let device = CpuDevice::new(1).unwrap();
    let Example { sets, .. } = example(&device, 11);
    assert!(sets[0].block.len() > 1 && sets[0].cells() > 1);
    let error = |damage: &dyn Fn(&mut Vec<MixSet>)| {
        let mut sets = sets.clone();
        damage(&mut sets);
        match Mix::new(&device, sets) {
            Err(Error::Mix { problem, .. }) => problem,
            other => panic!("{other:?}"),
        }
    };
    let longer = |region: Region| Region { len: region.len + 1, ..region };
    assert!(error(&|s| s[0].uses.reverse()).contains("sorted by cell"));
    assert!(error(&|s| s[0].uses[0].cell = usize::MAX).contains("sorted by cell"));
    assert!(error(&|s| s[0].blocks = longer(s[0].blocks)).contains("not a multiple"));
    assert!(error(&|s| s[0].coefficients = s[0].coefficients.map(longer)).contains("rows of"));
    assert!(error(&|s| s[0].coefficients = None).contains("need coefficients"));
    let factors = |s: &mut Vec<MixSet>, damage: &dyn Fn(&mut MixFactors)| {
        damage(s[2].factors.as_mut().unwrap());
    };
    assert!(error(&|s| factors(s, &|f| f.rows.truncate(1))).contains("needs a pattern and a gain"));
    assert!(error(&|s| factors(s, &|f| f.rows[0][0] = u32::MAX)).contains("out of range"));
    assert!(error(&|s| factors(s, &|f| f.rows.reverse())).contains("sorted by gain"));
    assert!(error(&|s| factors(s, &|f| f.gains = longer(f.gains))).contains("whole rows"));
    assert!(error(&|s| s[1].uses[0].at = [1, 0]).contains("exceeds the tensor"));
    assert!(error(&|s| s[1].uses[0].extent = [6, 7]).contains("larger than the template"));
    assert!(error(&|s| s[1].uses[0].factor = f32::NAN).contains("finite"));
    assert!(
        error(&|s| {
            let twice = s[1].uses[0];
            s[1].uses.push(twice);
        })
        .contains("written twice")
    );
}

/// In a set in which every use has its own cell, each use gets its own gradient of the
/// coefficients. For a hard-shared cell these gradients add up to the cell's gradient. The
/// templates' gradient is unchanged.
#[test]
fn a_probe_separates_the_gradients_of_shared_coefficients() {
    on_every_device!(|device| {
        for seed in 200..230 {
            let Example { mut memory, sets, mix } = example(device, seed);
            for name in ["large", "small", "lone"] {
                let len = memory.layout().parameter(name).unwrap().len;
                memory.set_gradient(name, &hashed(seed, len)).unwrap();
            }
            memory.mix_backward(&mix).unwrap();
            let whole = ["templates", "coefficients"].map(|name| memory.gradient(name).unwrap());

            let (set, k) = (&sets[0], sets[0].count());
            let room = memory.layout().parameter("probe").unwrap();
            let uses: Vec<MixUse> =
                set.uses.iter().enumerate().map(|(cell, used)| MixUse { cell, ..*used }).collect();
            let coefficients = Some(Region { len: uses.len() * k, ..room });
            let probe =
                MixSet { coefficients, uses, gradients: MixGradients::Coefficients, ..set.clone() };
            let probe = Mix::new(memory.device(), vec![probe]).unwrap();
            let mut larger = Memory::new(
                memory.device(),
                memory.layout().clone(),
                probe.scratch_bytes().max(mix.scratch_bytes()),
            )
            .unwrap();
            for (name, _) in memory.layout().parameters() {
                larger.set_parameter(name, &memory.parameter(name).unwrap()).unwrap();
                larger.set_gradient(name, &memory.gradient(name).unwrap()).unwrap();
            }
            larger.mix_backward(&probe).unwrap();

            assert_eq!(larger.gradient("templates").unwrap(), whole[0]);
            let mut sum = vec![0.0; whole[1].len()];
            for (used, part) in set.uses.iter().zip(larger.gradient("probe").unwrap().chunks(k)) {
                sum[used.cell * k..][..k].iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            }
            assert!(relative_error(&sum, &whole[1]) < 1e-5, "seed {seed}");
        }
    });
}

/// The same for gains: a probe has its own gains and products, and does not change templates and
/// patterns.
#[test]
fn a_probe_of_gains_does_not_change_templates_and_patterns() {
    on_every_device!(|device| {
        for seed in 300..320 {
            let Example { mut memory, sets, mix } = example(device, seed);
            for name in ["large", "small", "lone", "one", "two", "three"] {
                let len = memory.layout().parameter(name).unwrap().len;
                memory.set_gradient(name, &hashed(seed, len)).unwrap();
            }
            memory.mix(&mix, MixOutput::AllCopies).unwrap();
            memory.mix_backward(&mix).unwrap();
            let kept = ["patterned", "patterns"].map(|name| memory.gradient(name).unwrap());
            let gains = memory.gradient("gains").unwrap();
            let probed = |set: &MixSet| {
                let mut set = MixSet { gradients: MixGradients::Coefficients, ..set.clone() };
                let factors = set.factors.as_mut().unwrap();
                factors.gains = memory.layout().parameter("probe_gains").unwrap();
                let len = set.coefficients.unwrap().len;
                set.coefficients =
                    Some(Region { len, ..memory.layout().parameter("probe").unwrap() });
                set
            };
            let probe = Mix::new(memory.device(), vec![probed(&sets[2])]).unwrap();
            assert!(probe.scratch_bytes() <= mix.scratch_bytes());
            memory.mix_backward(&probe).unwrap();
            assert!(
                relative_error(&memory.gradient("probe_gains").unwrap(), &gains) < 1e-5,
                "seed {seed}"
            );
            assert_eq!(["patterned", "patterns"].map(|name| memory.gradient(name).unwrap()), kept);
        }
    });
}
