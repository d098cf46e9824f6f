//! Compares every direction, write mode and precision with the definition in f64. On a machine
//! without a GPU, checks that plans exist.

use super::*;
use crate::cpu::conv;
use crate::cuda::context::Context;
use crate::cuda::libraries::CublasLt;
use crate::cuda::on_device::{Buffer, context, error, random, rounded};
use crate::cuda::precision::Precision;
use crate::device::buffer::Write;
use crate::geometry::ConvGeometry;
use crate::graph::ops::activation::Activation;

const DIRECTIONS: [Direction; 3] =
    [Direction::Forward, Direction::BackwardData, Direction::BackwardWeight];

#[rustfmt::skip]
fn geometry(batch: usize, input: [usize; 2], channels: [usize; 2], kernel: usize, stride: usize, padding: usize, groups: usize) -> ConvGeometry {
    let [in_channels, out_channels] = channels;
    ConvGeometry { batch, input, in_channels, out_channels, kernel: [kernel; 2], stride: [stride; 2], padding: [padding; 2], groups }
}

fn geometries() -> Vec<ConvGeometry> {
    vec![
        geometry(2, [8, 8], [160, 160], 3, 1, 1, 1), // WRN-28-10, at small batch and image
        geometry(1, [16, 16], [160, 320], 3, 2, 1, 1),
        geometry(2, [4, 4], [320, 640], 1, 2, 0, 1),
        geometry(2, [16, 16], [16, 160], 3, 1, 1, 1),
        geometry(3, [9, 7], [16, 32], 3, 2, 1, 1),
        geometry(4, [12, 10], [3, 16], 3, 1, 1, 1), // stems
        geometry(2, [14, 14], [1, 16], 3, 1, 1, 1),
        geometry(1, [20, 20], [3, 64], 7, 2, 3, 1),
        geometry(3, [8, 8], [33, 31], 3, 1, 1, 1), // channels that are no multiple of anything
        geometry(2, [5, 5], [5, 7], 3, 1, 1, 1),
        geometry(2, [6, 6], [32, 64], 3, 1, 1, 2), // groups
        geometry(1, [7, 7], [6, 12], 3, 1, 1, 6),
        geometry(2, [9, 9], [20, 20], 3, 1, 1, 20), // depthwise
        geometry(2, [8, 8], [96, 96], 3, 2, 1, 96),
        geometry(2, [6, 5], [24, 144], 1, 1, 0, 1), // pointwise
        geometry(128, [1, 1], [64, 10], 1, 1, 0, 1), // linear layers
        geometry(3, [1, 1], [5, 100], 1, 1, 0, 1),
    ]
}

/// Computes one of x, w, y from the other two by definition.
fn definition(
    g: &ConvGeometry,
    direction: Direction,
    a: &[f32],
    b: &[f32],
    len: usize,
) -> Vec<f32> {
    let mut out = vec![0.0; len];
    match direction {
        Direction::Forward => conv::reference::forward(g, a, b, &mut out, Write::Set),
        Direction::BackwardData => conv::reference::backward_data(g, a, b, &mut out, Write::Set),
        Direction::BackwardWeight => {
            conv::reference::backward_weight(g, a, b, &mut out, Write::Set)
        }
    }
    out
}

#[test]
fn every_direction_matches_the_definition_and_repeats_exactly() {
    let Some(ctx) = context() else { return };
    let mut worst = [0f64; 2];
    for (g, direction) in geometries().iter().flat_map(|g| DIRECTIONS.map(|d| (g, d))) {
        let [x, w, y] = [g.input_len(), g.weight_len(), g.output_len()];
        let (of_a, of_b, of_out) = match direction {
            Direction::Forward => (x, w, y),
            Direction::BackwardData => (y, w, x),
            Direction::BackwardWeight => (x, y, w),
        };
        // Rounded to bf16 for f32 too, so that one reference serves both.
        let [a, b, start] =
            [(1, of_a), (2, of_b), (3, of_out)].map(|(seed, len)| rounded(&random(seed, len)));
        let product = definition(g, direction, &a, &b, of_out);
        for precision in [Precision::Bf16, Precision::F32] {
            for write in [Write::Set, Write::Add] {
                let (plan, bytes) = ConvPlan::new(
                    &ctx.dnn,
                    &ctx.counters,
                    Conv { geometry: *g, direction, write, precision, epilogue: None },
                )
                .unwrap();
                let (a, b) = (Buffer::new(&ctx, precision, &a), Buffer::new(&ctx, precision, &b));
                let workspace = Buffer::bytes(&ctx, bytes);
                let run = || {
                    // A plan that only overwrites must ignore earlier contents.
                    let old =
                        if write == Write::Add { start.clone() } else { vec![f32::NAN; of_out] };
                    let out = Buffer::new(&ctx, precision, &old);
                    // SAFETY: buffers of the geometry's sizes, alive until `read` has waited.
                    unsafe {
                        plan.run(
                            &ctx.dnn,
                            &ctx.counters,
                            [a.at(), b.at(), out.at()],
                            0,
                            workspace.at(),
                        )
                    }
                    .unwrap();
                    out.read()
                };
                let got = run();
                let wanted: Vec<f32> = match write {
                    Write::Set => product.clone(),
                    Write::Add => product.iter().zip(&start).map(|(p, s)| p + s).collect(),
                };
                let what = format!("{} by {}", plan.conv, plan.choice());
                let off = error(&got, &wanted);
                assert!(off < precision.tolerance(), "{what}: {off:.2e} from the definition");
                assert_eq!(bits(&got), bits(&run()), "{what}: two runs differ");
                let worst = &mut worst[precision as usize];
                *worst = worst.max(off);
            }
        }
    }
    println!("largest relative L2 error: bf16 {:.2e}, f32 {:.2e}", worst[0], worst[1]);
}

#[test]
fn a_fused_plan_adds_the_bias_and_applies_the_activation() {
    let Some(ctx) = context() else { return };
    let mut fused = 0;
    for geometry in geometries().into_iter().filter(|g| g.groups == 1 && g.input != [1; 2]) {
        let lens = [geometry.input_len(), geometry.weight_len(), geometry.out_channels];
        let [x, w, bias] = [0, 1, 2].map(|i| rounded(&random(i as u64 + 1, lens[i])));
        let sum = definition(&geometry, Direction::Forward, &x, &w, geometry.output_len());
        for (precision, activation) in [Precision::Bf16, Precision::F32]
            .into_iter()
            .flat_map(|p| [(p, Activation::None), (p, Activation::Relu)])
        {
            let (direction, write) = (Direction::Forward, Write::Set);
            let conv = Conv { geometry, direction, write, precision, epilogue: Some(activation) };
            // If cuDNN has no such plan, a separate kernel adds the bias.
            let Ok((plan, bytes)) = ConvPlan::new(&ctx.dnn, &ctx.counters, conv) else { continue };
            fused += 1;
            let [x, w, bias_there] =
                [&x, &w, &bias].map(|values| Buffer::new(&ctx, precision, values));
            let out = Buffer::new(&ctx, precision, &vec![f32::NAN; sum.len()]);
            let workspace = Buffer::bytes(&ctx, bytes);
            // SAFETY: buffers of the geometry's sizes, alive until `read` has waited.
            unsafe {
                plan.run(
                    &ctx.dnn,
                    &ctx.counters,
                    [x.at(), w.at(), out.at()],
                    bias_there.at(),
                    workspace.at(),
                )
            }
            .unwrap();
            let (low, high) = activation.bounds();
            let finish = |(sum, bias): (&f32, &f32)| (sum + bias).clamp(low, high);
            let wanted: Vec<f32> = sum.iter().zip(bias.iter().cycle()).map(finish).collect();
            let off = error(&out.read(), &wanted);
            assert!(off < precision.tolerance(), "{conv} by {}: {off:.2e}", plan.choice());
        }
    }
    assert!(fused > 0, "cuDNN {} fuses nothing", ctx.libraries.cudnn.version());
}

/// Tunes in a separate folder. The winner computes the definition, and another process reads it
/// from the folder.
#[test]
fn a_tuned_plan_is_correct_and_cached() {
    let Some(ctx) = context() else { return };
    let folder = std::env::temp_dir().join(format!("superweight-tuned-{}", std::process::id()));
    let new =
        || Dnn::new(ctx.libraries.cudnn, &ctx.stream, &ctx.properties, Some(&folder)).unwrap();
    let g = geometry(4, [8, 8], [24, 40], 3, 2, 1, 1);
    let levels = [Tuning::Quick, Tuning::Full, Tuning::Quick];
    for ((direction, tuning), write) in
        DIRECTIONS.into_iter().zip(levels).zip([Write::Set, Write::Add, Write::Set])
    {
        let conv =
            Conv { geometry: g, direction, write, precision: Precision::Bf16, epilogue: None };
        let dnn = new();
        dnn.set_tuning(tuning);
        let plan = dnn.plan(&conv).unwrap();
        let written = conv.written();
        let values: Vec<Vec<f32>> = conv.lens()[..3]
            .iter()
            .zip(1..)
            .map(|(&len, seed)| rounded(&random(seed, len)))
            .collect();
        let buffers: Vec<_> = values.iter().map(|n| Buffer::new(&ctx, conv.precision, n)).collect();
        let workspace = Buffer::bytes(&ctx, plan.workspace());
        let tensors = [0, 1, 2, 3].map(|i| buffers.get(i).map_or(0, |buffer| buffer.at()));
        // SAFETY: buffers of the geometry's sizes, alive until `read` has waited.
        unsafe { plan.run(dnn.cudnn, lock(&dnn.handle).raw, tensors, workspace.at()) }.unwrap();
        let [x, w, y] = [0, 1, 2].map(|i| &values[i][..]);
        let (a, b) = match direction {
            Direction::Forward => (x, w),
            Direction::BackwardData => (y, w),
            Direction::BackwardWeight => (x, y),
        };
        let mut wanted = definition(&g, direction, a, b, conv.lens()[written]);
        if write == Write::Add {
            wanted.iter_mut().zip(&values[written]).for_each(|(sum, start)| *sum += start);
        }
        let off = error(&buffers[written].read(), &wanted);
        assert!(off < conv.precision.tolerance(), "{conv} by {}: {off:.2e}", plan.choice());

        let again = new();
        let record = again.cache.get(&conv).unwrap();
        assert_eq!((record.choice(), record.tuning), (plan.choice().clone(), tuning), "{conv}");
        assert!(record.microseconds > 0.0 && record.microseconds.is_finite());
        // A tuned plan also serves the heuristic level.
        assert_eq!(again.plan(&conv).unwrap().choice(), plan.choice(), "{conv}");
    }
    let dnn = new();
    assert_eq!(dnn.records().len(), DIRECTIONS.len());
    dnn.refresh();
    assert!(new().records().is_empty());
    std::fs::remove_dir_all(folder).unwrap();
}

/// A record with a far too long time, as of a plan that was tuned while other work ran, is tuned
/// again, but only if rechecks are on. Confirmed records and records that are slower now stay.
#[test]
fn a_plan_that_was_tuned_on_a_busy_gpu_is_tuned_again() {
    let Some(ctx) = context() else { return };
    let folder = std::env::temp_dir().join(format!("superweight-busy-{}", std::process::id()));
    let conv = Conv {
        geometry: geometry(64, [32, 32], [64, 64], 3, 1, 1, 1),
        direction: Direction::Forward,
        write: Write::Set,
        precision: Precision::Bf16,
        epilogue: None,
    };
    let open =
        || Dnn::new(ctx.libraries.cudnn, &ctx.stream, &ctx.properties, Some(&folder)).unwrap();
    let take = |tuning, checks: bool| {
        let dnn = open();
        dnn.set_tuning(tuning);
        if checks {
            dnn.recheck_tuning();
        }
        let choice = dnn.plan(&conv).unwrap().choice().clone();
        (open().cache.get(&conv).unwrap(), choice)
    };
    let (tuned, choice) = take(Tuning::Quick, true);
    assert!(!tuned.confirmed && tuned.choice() == choice);
    let record = |microseconds| {
        open().cache.put(&conv, &choice, tuned.workspace, microseconds, Tuning::Quick)
    };
    record(1e6);
    for (tuning, checks) in [(Tuning::Quick, false), (Tuning::Heuristic, true)] {
        let (known, chosen) = take(tuning, checks);
        assert_eq!((known.microseconds, known.confirmed, &chosen), (1e6, false, &choice));
    }
    let (again, chosen) = take(Tuning::Quick, true);
    assert!(again.microseconds < 1e5 && !again.confirmed && again.choice() == chosen, "{again:?}");
    record(1e-3);
    let (slower, chosen) = take(Tuning::Quick, true);
    assert_eq!((slower.microseconds, slower.confirmed, &chosen), (1e-3, false, &choice));
    record(1e6);
    let long = open().cache.get(&conv).unwrap();
    open().cache.confirm(&long);
    assert_eq!(take(Tuning::Quick, true).0.microseconds, 1e6, "confirmed records are not measured");
    std::fs::remove_dir_all(folder).unwrap();
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Shapes of WRN-28-10 at batch 128 with their number of occurrences, including the stem.
const WRN_28_10: [(usize, [usize; 2], usize, usize, usize, usize); 10] = [
    (1, [3, 16], 3, 1, 32, 1),
    (1, [16, 160], 3, 1, 32, 1),
    (7, [160, 160], 3, 1, 32, 1),
    (1, [16, 160], 1, 1, 32, 0),
    (1, [160, 320], 3, 2, 32, 1),
    (7, [320, 320], 3, 1, 16, 1),
    (1, [160, 320], 1, 2, 32, 0),
    (1, [320, 640], 3, 2, 16, 1),
    (7, [640, 640], 3, 1, 8, 1),
    (1, [320, 640], 1, 2, 16, 0),
];

/// Prints tables of tuned plans. Run with `--ignored --nocapture` on an idle GPU. `SWN_TUNING=full`
/// searches the shapes that occur seven times further, for `SWN_TUNING_SECONDS` each.
#[test]
#[ignore = "a measurement of a minute on a GPU"]
fn tuned_plans_of_wrn_28_10_are_no_slower_than_the_first_proposals() {
    let Some(ctx) = context() else { return };
    let set = |variable: &str| std::env::var(variable).ok();
    let full = set("SWN_TUNING").is_some_and(|level| level == "full");
    let tuning = if full { Tuning::Full } else { Tuning::Quick };
    let seconds = set("SWN_TUNING_SECONDS").and_then(|s| s.parse().ok());
    let limit = seconds.map_or(tuning.limit(), std::time::Duration::from_secs_f64);
    for write in [Write::Set, Write::Add] {
        // The quick level already shows the cost of adding.
        let (tuning, limit) = match write {
            Write::Set => (tuning, limit),
            Write::Add => (Tuning::Quick, Tuning::Quick.limit()),
        };
        let mut sums = [[0f64; 2]; 3];
        println!("{tuning:?} {write:?}, µs of the first proposal → tuned (TFLOP/s)");
        for (times, channels, kernel, stride, side, padding) in WRN_28_10 {
            if (full || write == Write::Add) && times == 1 {
                continue;
            }
            let geometry = geometry(128, [side; 2], channels, kernel, stride, padding, 1);
            for (index, direction) in DIRECTIONS.into_iter().enumerate() {
                let to_images = channels[0] == 3 && direction == Direction::BackwardData;
                if to_images || (write == Write::Add && direction == Direction::BackwardWeight) {
                    continue;
                }
                let conv =
                    Conv { geometry, direction, write, precision: Precision::Bf16, epilogue: None };
                let [before, after] = tune(&ctx, &conv, tuning, limit, times);
                sums[index][0] += times as f64 * before;
                sums[index][1] += times as f64 * after;
            }
        }
        let [forward, data, weight] = sums.map(|[_, after]| after / 1e3);
        let [before, after] = [0, 1].map(|i| sums.iter().map(|sum| sum[i]).sum::<f64>() / 1e3);
        println!(
            "forward {forward:.3} + data {data:.3} + weight {weight:.3} = {after:.3} ms, first {before:.3} ms"
        );
        assert!(after <= 1.02 * before, "tuning made it slower: {before:.3} → {after:.3} ms");
    }
}

/// Measures the first proposal and the winner and prints both, and after a full search the best of
/// every engine.
fn tune(
    ctx: &Context,
    conv: &Conv,
    tuning: Tuning,
    limit: std::time::Duration,
    times: usize,
) -> [f64; 2] {
    let handle = lock(&ctx.dnn.handle);
    let target = handle.target();
    let bench = Bench::new(&ctx.stream, handle.raw, ctx.dnn.cudnn, conv).unwrap();
    let graph = Arc::new(Graph::new(&target, conv).unwrap());
    let clock = std::time::Instant::now();
    let plan = first(&target, &graph, conv).unwrap();
    let milliseconds = 1e3 * clock.elapsed().as_secs_f64();
    let before = bench.measure(&plan, f64::INFINITY, 15).unwrap();
    let clock = std::time::Instant::now();
    let found = search::best(&bench, &target, &graph, conv, tuning, limit).unwrap();
    let after = bench.measure(&found.plan, f64::INFINITY, 15).unwrap();
    println!(
        "{times}× {conv}: {before:.1} → {after:.1} ({:.0}) {} ws {} [{milliseconds:.0} ms, {:.1} s for {}]",
        2e-6 * conv.geometry.multiply_adds() as f64 / after,
        found.plan.choice(),
        found.plan.workspace(),
        clock.elapsed().as_secs_f64(),
        found.times.len()
    );
    if tuning == Tuning::Full {
        let mut best = std::collections::BTreeMap::<i64, (f64, &engine::Choice, usize)>::new();
        for (choice, &time) in &found.times {
            let entry = best.entry(choice.engine).or_insert((f64::INFINITY, choice, 0));
            *entry =
                (entry.0.min(time), if time < entry.0 { choice } else { entry.1 }, entry.2 + 1);
        }
        best.values()
            .for_each(|(time, choice, count)| println!("    {time:.1} {choice} of {count}"));
    }
    [before, after]
}

/// Target for a GPU described by its properties: those of an H200 as reported by the driver.
fn described() -> Option<Target> {
    const H200: &std::ffi::CStr = cr#"{"deviceVer": 900, "deviceId": 0, "cudaDeviceId": 0, "driverVer": 13000,
        "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
        "multiProcessorCount": 132, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
        "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
        "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 9013, "isTccDriver": 0,
        "supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "l2CacheSize": 62914560,
        "deviceName": "NVIDIA H200", "driverVersion": 13000, "totalGlobalMem": 150000000000}"#;
    let opened = CublasLt::open().and_then(|lt| Cudnn::open(&lt));
    let cudnn = match opened {
        Ok(cudnn) => Box::leak(Box::new(cudnn)),
        Err(error) => {
            println!("skipped: {error}");
            return None;
        }
    };
    use descriptor::{Attribute, Descriptor, Kind};
    let properties = Descriptor::new(cudnn, Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR).unwrap();
    properties.set_text(Attribute::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, H200).unwrap();
    properties.finalize("device properties").unwrap();
    Some(Target { cudnn, device: Device::Described(properties) })
}

/// Needs cuDNN 9, but no GPU.
#[test]
fn every_convolution_has_an_allowed_plan_and_a_choice_rebuilds_it() {
    let Some(target) = described() else { return };
    for (geometry, direction) in geometries().into_iter().flat_map(|g| DIRECTIONS.map(|d| (g, d))) {
        for precision in [Precision::Bf16, Precision::F32] {
            for write in [Write::Set, Write::Add] {
                let conv = Conv { geometry, direction, write, precision, epilogue: None };
                let graph = Arc::new(Graph::new(&target, &conv).unwrap());
                let plan = first(&target, &graph, &conv).unwrap();
                let config = Config::new(&target, &graph, plan.choice(), precision).unwrap();
                let again = Plan::new(&target, &graph, config).unwrap();
                assert_eq!(
                    (plan.workspace(), plan.choice()),
                    (again.workspace(), again.choice()),
                    "{conv}"
                );
            }
        }
    }
}

/// Needs cuDNN 9, but no GPU. Proposals of one engine with different knobs are different proposals:
/// 58 for this shape in 9.14.
#[test]
fn the_heuristics_propose_many_settings_of_an_engine() {
    let Some(target) = described() else { return };
    let geometry = geometry(128, [32, 32], [160, 160], 3, 1, 1, 1);
    for direction in DIRECTIONS {
        let conv = Conv {
            geometry,
            direction,
            write: Write::Set,
            precision: Precision::Bf16,
            epilogue: None,
        };
        let graph = Graph::new(&target, &conv).unwrap();
        let proposed = proposals(&target, &graph, MODES[0], conv.precision).unwrap();
        let choices: std::collections::HashSet<_> =
            proposed.iter().map(|c| c.choice.clone()).collect();
        let engines: std::collections::HashSet<_> = choices.iter().map(|c| c.engine).collect();
        assert!(
            choices.len() > 3 * engines.len(),
            "{conv}: {} of {}",
            choices.len(),
            engines.len()
        );
        for choice in &choices {
            let knobs = engine::knobs(&target, &graph, choice.engine).unwrap();
            let in_range = |&(kind, value): &(u32, i64)| {
                knobs.iter().any(|k| k.kind == kind && (k.least..=k.most).contains(&value))
            };
            assert!(choice.knobs.iter().all(in_range), "{conv}: {choice} of {knobs:?}");
        }
    }
}

/// Needs cuDNN 9, but no GPU. A bias and a ReLU do not force engines that compile at run time: many
/// configurations are proposed for the convolutions of WRN-28-10 that a batch norm is folded into.
#[test]
fn fused_convolutions_have_precompiled_plans() {
    let Some(target) = described() else { return };
    for (channels, side) in [(160, 32), (320, 16), (640, 8)] {
        let geometry = geometry(128, [side; 2], [channels; 2], 3, 1, 1, 1);
        let (direction, write, precision) = (Direction::Forward, Write::Set, Precision::Bf16);
        let conv = Conv { geometry, direction, write, precision, epilogue: Some(Activation::Relu) };
        let graph = Arc::new(Graph::new(&target, &conv).unwrap());
        let proposed = proposals(&target, &graph, MODES[0], precision).unwrap();
        assert!(proposed.len() > 10, "{conv}: {} proposals", proposed.len());
        first(&target, &graph, &conv).unwrap();
    }
}
