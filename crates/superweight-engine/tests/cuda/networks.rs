//! Whole networks: losses, gradient directions, training, mixed weights, errors, and profiles.

use super::*;

/// A wide residual network of two blocks and a mobile network, for images of 16×16.
fn networks(batch: usize) -> Vec<Case> {
    let finish = |mut g: GraphBuilder, x: NodeId, shape: Shape| {
        let x = g.global_average_pool("pool", x).unwrap();
        let z = g.linear("fc", x, 10, true).unwrap();
        g.cross_entropy("loss", z, CrossEntropy::classes("labels").smoothing(0.1)).unwrap();
        g.output("y", z).unwrap();
        Case {
            graph: g.finish().unwrap(),
            settings: Settings::train(batch),
            inputs: vec![("x".into(), shape.len())],
            classes: Some(10),
            chained: true,
        }
    };
    let shape = Shape::new(16, 16, 3);
    let mut g = GraphBuilder::new("wide");
    let x = g.input("x", shape).unwrap();
    let mut x = g.conv("stem", x, Conv2d::new(16, 3).padding(1)).unwrap();
    for (i, (out, stride)) in [(32, 1), (32, 1), (64, 2)].into_iter().enumerate() {
        let a = g.batch_norm(format!("{i}.bn1"), x, BatchNorm::relu()).unwrap();
        let conv = Conv2d::new(out, 3).stride(stride).padding(1);
        let h = g.conv(format!("{i}.conv1"), a, conv).unwrap();
        let h = g.batch_norm(format!("{i}.bn2"), h, BatchNorm::relu()).unwrap();
        let h = g.conv(format!("{i}.conv2"), h, Conv2d::new(out, 3).padding(1)).unwrap();
        let same = g.shape(x).channels == out;
        let shortcut = Conv2d::new(out, 1).stride(stride);
        let s = if same { x } else { g.conv(format!("{i}.shortcut"), a, shortcut).unwrap() };
        x = g.add(format!("{i}.add"), s, h, Activation::None).unwrap();
    }
    let x = g.batch_norm("bn", x, BatchNorm::relu()).unwrap();
    let wide = finish(g, x, shape);

    let mut g = GraphBuilder::new("mobile");
    let x = g.input("x", shape).unwrap();
    let x = g.conv("stem", x, Conv2d::new(16, 3).padding(1)).unwrap();
    let x = g.batch_norm("bn", x, BatchNorm::relu6()).unwrap();
    let h = g.conv("expand", x, Conv2d::new(48, 1)).unwrap();
    let h = g.batch_norm("bn1", h, BatchNorm::relu6()).unwrap();
    let h = g.conv("depthwise", h, Conv2d::new(48, 3).padding(1).groups(48)).unwrap();
    let h = g.batch_norm("bn2", h, BatchNorm::relu6()).unwrap();
    let h = g.conv("project", h, Conv2d::new(16, 1)).unwrap();
    let h = g.batch_norm("bn3", h, BatchNorm::plain()).unwrap();
    let x = g.add("add", x, h, Activation::None).unwrap();
    vec![wide, finish(g, x, shape)]
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    common::dot(a, b) / (common::dot(a, a) * common::dot(b, b)).sqrt()
}

/// bf16 rounds after every operation. Training needs gradients that point in the same direction.
#[test]
fn small_networks_match_losses_and_gradient_directions_of_the_cpu() {
    for case in networks(64) {
        let expected = outcome(&cpu(), &case);
        with_cuda(Precision::F32, |device| {
            for ((name, ours), (_, theirs)) in outcome(device, &case).iter().zip(&expected) {
                let error = relative_error(ours, theirs);
                // If the devices round to different sides of a ReLU's kink, a gradient through it
                // differs.
                assert!(error < 5e-3, "{} {name}: {error:.2e}", case.graph.name());
            }
        });
        with_cuda(Precision::Bf16, |device| {
            for ((name, ours), (_, theirs)) in outcome(device, &case).iter().zip(&expected) {
                let what = format!("{} {name}", case.graph.name());
                match name.as_str() {
                    "loss" => {
                        let error = (ours[0] - theirs[0]).abs() / theirs[0];
                        assert!(error < 0.01, "{what}: {} instead of {}", ours[0], theirs[0]);
                    }
                    name if name.contains("running") || name == "y" => {
                        let error = relative_error(ours, theirs);
                        assert!(error < 0.05, "{what}: {error:.2e}");
                    }
                    // A scale's gradient is a sum of thousands of rounded values of both signs that
                    // nearly cancels.
                    _ => {
                        let is_vector = name.contains("bn") || name.ends_with("bias");
                        let (cosine, least) =
                            (cosine(ours, theirs), if is_vector { 0.97 } else { 0.99 });
                        println!("{what}: cosine {cosine:.5}");
                        assert!(cosine > least, "{what}: cosine {cosine}");
                    }
                }
            }
        });
    }
}

/// Trains twenty steps from the same start, which checks that updates reach the weights that
/// convolutions read.
#[test]
fn training_matches_the_cpu() {
    fn losses<D: Device>(device: &D, case: &Case) -> Vec<f32> {
        let mut bench = Bench::new(device, case.graph.clone(), case.settings);
        let memory = &mut bench.memory;
        memory.set_input("x", &rounded(&hashed(5, 16 * 16 * 16 * 3))).unwrap();
        memory.set_classes("labels", &(0..16).map(|i| i % 10).collect::<Vec<u32>>()).unwrap();
        let groups = vec![ParameterGroup::new(0..memory.layout().parameter_len, 5e-4)];
        let options = SgdOptions { momentum: 0.9, nesterov: true };
        let mut optimizer = Sgd::new(memory, options, groups).unwrap();
        optimizer.set_lrs(&[0.02]).unwrap();
        let mut step = || {
            bench.memory.run(&bench.program).unwrap();
            optimizer.step(&mut bench.memory);
            bench.memory.metrics("loss").unwrap().loss
        };
        (0..20).map(|_| step()).collect()
    }
    let case = &networks(16)[0];
    let expected = losses(&cpu(), case);
    assert!(expected[19] < 0.7 * expected[0], "the network learns its batch: {expected:?}");
    for (precision, tolerance) in [(Precision::F32, 0.01), (Precision::Bf16, 0.05)] {
        with_cuda(precision, |device| {
            let found = losses(device, case);
            let worst =
                found.iter().zip(&expected).map(|(a, b)| (a - b).abs() / b).fold(0.0, f32::max);
            assert!(worst < tolerance, "{precision:?}: {found:?} instead of {expected:?}");
        });
    }
}

/// Weights mixed from templates, nested (few templates) and in a grid (many), and the gradients of
/// templates and coefficients. The bits are the same if only kernel weights are updated.
#[test]
fn mixed_weights_and_their_gradients_match_the_cpu() {
    fn run<D: Device>(device: &D, count: usize, block: Block, weight_decay: f32) -> Vec<Vec<f32>> {
        let (batch, channels) = (8, 32);
        let mut g = GraphBuilder::new("composed");
        let x = g.input("x", Shape::new(6, 6, channels)).unwrap();
        for (conv, output, gradient) in [("conv", "y", "r"), ("again", "z", "s")] {
            let x = g.conv(conv, x, Conv2d::new(channels, 3).padding(1)).unwrap();
            g.output(output, x).unwrap();
            g.external_gradient(gradient, x, 1.0).unwrap();
        }
        let graph = g.finish().unwrap();
        let cells = [channels.div_ceil(block.rows), channels.div_ceil(block.cols)];
        let mut builder = LayoutBuilder::new();
        builder.parameter("templates", count * block.len()).unwrap();
        builder.parameter("coefficients", cells[0] * cells[1] * count).unwrap();
        builder.graph(&graph, &Settings::train(batch)).unwrap();
        let layout = builder.finish(device);
        let region = |name: &str| layout.parameter(name).unwrap();
        let uses = (0..cells[0] * cells[1]).flat_map(|cell| {
            let at = [cell / cells[1] * block.rows, cell % cells[1] * block.cols];
            let extent = [block.rows.min(channels - at[0]), block.cols.min(channels - at[1])];
            [("conv.weight", 0.1), ("again.weight", 0.05)].map(|(name, factor)| {
                let tensor = region(name);
                MixUse { cell, tensor, inputs: channels, at, extent, factor }
            })
        });
        let set = MixSet {
            name: "set".into(),
            block,
            blocks: region("templates"),
            coefficients: Some(region("coefficients")),
            factors: None,
            uses: uses.collect(),
            gradients: MixGradients::Both,
            weight_decay,
        };
        let program = Program::compile(device, &graph, &Settings::train(batch), &layout).unwrap();
        let mix = Mix::new(device, vec![set]).unwrap();
        let arena = program.plan().arena_bytes.max(mix.scratch_bytes());
        let mut memory = Memory::new(device, layout, arena).unwrap();
        fill(&graph, &mut memory);
        for name in ["templates", "coefficients"] {
            let len = memory.layout().parameter(name).unwrap().len;
            memory.set_parameter(name, &hashed(name_seed(name), len)).unwrap();
        }
        let images = batch * 36 * channels;
        memory.set_input("x", &rounded(&hashed(1, images))).unwrap();
        memory.set_input("r", &rounded(&hashed(2, images))).unwrap();
        memory.set_input("s", &rounded(&hashed(3, images))).unwrap();
        // Before the first mix the weights have other values.
        let [found, mut all] = [MixOutput::KernelWeights, MixOutput::AllCopies].map(|readers| {
            memory.mix(&mix, readers).unwrap();
            memory.run(&program).unwrap();
            memory.mix_backward(&mix).unwrap();
            let gradients =
                ["templates", "coefficients"].map(|name| memory.gradient(name).unwrap());
            let outputs = ["y", "z"].map(|name| memory.output(name).unwrap());
            [outputs, gradients].concat()
        });
        assert_eq!(found, all, "{count} templates of {block:?}, weight_decay {weight_decay}");
        all.extend(["conv.weight", "again.weight"].map(|name| memory.parameter(name).unwrap()));
        all
    }
    for (count, rows, cols) in
        [(3, 32, 32), (8, 32, 17), (20, 8, 8), (12, 5, 32), (20, 5, 16), (20, 8, 24), (20, 16, 16)]
    {
        let block = Block { rows, positions: 9, cols };
        for weight_decay in [0.0, 0.5] {
            let expected = run(&cpu(), count, block, weight_decay);
            for (precision, tolerance) in PRECISIONS {
                with_cuda(precision, |device| {
                    for (ours, theirs) in
                        run(device, count, block, weight_decay).iter().zip(&expected)
                    {
                        let error = relative_error(ours, theirs);
                        assert!(
                            error < tolerance,
                            "{precision:?}, {count} templates of {rows}×{cols}: {error:.2e}"
                        );
                    }
                });
            }
        }
    }
}

#[test]
fn missing_devices_and_too_large_storages_are_errors() {
    match CudaDevice::new(1000, Precision::F32) {
        Err(Error::Cuda(
            CudaError::NoSuchDevice { ordinal: 1000, .. } | CudaError::NoDriver { .. },
        )) => {}
        Err(Error::Cuda(CudaError::OldDriver { .. })) => {}
        other => panic!("{other:?}"),
    }
    with_cuda(Precision::F32, |device| {
        let layout = LayoutBuilder::new().parameter("bank", 1 << 50).unwrap().finish(device);
        let error = Memory::new(device, layout, 0).unwrap_err();
        let Error::Cuda(CudaError::OutOfMemory { requested, free, total, .. }) = error else {
            panic!("{error}")
        };
        assert!(requested == 1 << 52 && free <= total && total > 0, "{requested} {free} {total}");
        device.finish().unwrap();
        let case = &networks(16)[0];
        let mut bench = Bench::new(device, case.graph.clone(), case.settings);
        bench.memory.set_control(Control::ValidRows, 3);
        bench.run();
        assert_eq!(bench.memory.metrics("loss").unwrap().rows, 3.0, "the device still works");
    });
}

#[test]
fn a_profile_has_every_launch() {
    with_cuda(Precision::Bf16, |device| {
        let case = &networks(16)[0];
        let mut bench = Bench::new(device, case.graph.clone(), case.settings);
        let mut times = vec![];
        bench.memory.profile(&bench.program, &mut |index, time| times.push((index, time))).unwrap();
        // Steps that are fused with an earlier step have no time.
        let joined = |index: usize| {
            matches!(bench.program.steps()[index].call, Call::NormApply(_) | Call::Copy(_))
        };
        let timed: Vec<usize> = times.iter().map(|(index, _)| *index).collect();
        assert!(timed.is_sorted_by(|a, b| a < b), "in order, each once: {timed:?}");
        let missing = (0..bench.program.steps().len()).filter(|index| !timed.contains(index));
        assert!(
            missing.clone().count() > 0 && missing.clone().all(joined),
            "{:?}",
            missing.collect::<Vec<_>>()
        );
        assert!(times.iter().all(|(_, time)| time.as_nanos() > 0));
    });
}
