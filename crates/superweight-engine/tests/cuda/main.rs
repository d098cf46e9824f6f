//! Compares the GPU with the CPU: every operation and small networks, with the same inputs.
//!
//! In f32 both add the same products in a different order: relative L2 error below 1e-5. In bf16
//! inputs and weights are rounded first, so only the rounding of results remains: below 1e-2. The
//! CPU convolves without Winograd, whose transforms lose two digits.

#[path = "../common/mod.rs"]
mod common;
mod networks;
mod operations;

use common::{Bench, fill, hashed, name_seed, relative_error, with_cuda};
use superweight_engine::cpu::conv::Algorithm;
use superweight_engine::{
    Activation, BatchNorm, Block, Call, Control, Conv2d, CpuDevice, CrossEntropy, CudaDevice,
    CudaError, Device, Error, Graph, GraphBuilder, LayoutBuilder, Memory, Mix, MixGradients,
    MixOutput, MixSet, MixUse, NodeId, NormMode, ParameterGroup, Pool2d, Precision, Program, Scope,
    Settings, Sgd, SgdOptions, Shape, SlotKind,
};

const PRECISIONS: [(Precision, f64); 2] = [(Precision::F32, 1e-5), (Precision::Bf16, 1e-2)];

/// Rounds to the nearest bf16 value.
fn rounded(values: &[f32]) -> Vec<f32> {
    let round =
        |v: &f32| f32::from_bits((v.to_bits() + 0x7fff + ((v.to_bits() >> 16) & 1)) & 0xffff_0000);
    values.iter().map(round).collect()
}

fn cpu() -> CpuDevice {
    CpuDevice::new(2).unwrap().with_conv_algorithm(Algorithm::Direct)
}

/// A graph and its inputs with their elements per image.
struct Case {
    graph: Graph,
    settings: Settings,
    inputs: Vec<(String, usize)>,
    classes: Option<u32>,
    /// Several operations in sequence. In bf16 intermediate values are rounded too, and a ReLU's
    /// mask flips where rounding changes the sign.
    chained: bool,
}

/// Allowed bf16 error after several operations.
const CHAINED: f64 = 4e-2;

fn case(
    name: &str,
    batch: usize,
    shape: Shape,
    op: impl FnOnce(&mut GraphBuilder, NodeId) -> Result<NodeId, Error>,
) -> Case {
    let mut g = GraphBuilder::new(name);
    let x = g.input("x", shape).unwrap();
    let y = op(&mut g, x).unwrap();
    let len = g.shape(y).len();
    g.output("y", y).unwrap();
    g.external_gradient("r", y, 0.5).unwrap();
    Case {
        graph: g.finish().unwrap(),
        settings: Settings { input_gradients: true, ..Settings::train(batch) },
        inputs: vec![("x".into(), shape.len()), ("r".into(), len)],
        classes: None,
        chained: false,
    }
}

fn chained(
    name: &str,
    batch: usize,
    shape: Shape,
    ops: impl FnOnce(&mut GraphBuilder, NodeId) -> Result<NodeId, Error>,
) -> Case {
    Case { chained: true, ..case(name, batch, shape, ops) }
}

fn labels(batch: usize, classes: u32) -> Vec<u32> {
    (0..batch as u32).map(|i| (i * 7 + 3) % classes).collect()
}

/// Everything that a run computes, by name.
fn outcome<D: Device>(device: &D, case: &Case) -> Vec<(String, Vec<f32>)> {
    let mut bench = Bench::new(device, case.graph.clone(), case.settings);
    let memory = &mut bench.memory;
    for slot in case.graph.slots().iter().filter(|slot| slot.kind == SlotKind::Weight) {
        let values = memory.parameter(&slot.name).unwrap();
        memory.set_parameter(&slot.name, &rounded(&values)).unwrap();
    }
    let labels = case.classes.map(|classes| labels(case.settings.batch, classes));
    for (name, len) in &case.inputs {
        let mut values = hashed(name_seed(name), len * case.settings.batch);
        // Images depend on their class, as in training: gradients of pure noise cancel to little
        // but rounding.
        for (image, class) in values.chunks_mut(*len).zip(labels.iter().flatten()) {
            image
                .iter_mut()
                .zip(hashed(*class + 1, *len))
                .for_each(|(pixel, drawn)| *pixel += drawn);
        }
        memory.set_input(name, &rounded(&values)).unwrap();
    }
    if let Some(labels) = &labels {
        memory.set_classes("labels", labels).unwrap();
    }
    bench.run();
    let memory = &bench.memory;
    let mut found = vec![];
    for slot in case.graph.slots() {
        let values = match slot.kind {
            SlotKind::Statistic => memory.statistic(&slot.name),
            _ => memory.gradient(&slot.name),
        };
        found.push((slot.name.clone(), values.unwrap()));
    }
    for name in ["y", "x.gradient"] {
        found.extend(memory.output(name).ok().map(|values| (name.to_owned(), values)));
    }
    if let Ok(metrics) = memory.metrics("loss") {
        found.push(("loss".into(), vec![metrics.loss, metrics.top1, metrics.top5, metrics.rows]));
    }
    found
}

fn assert_agreement(case: &Case) {
    let expected = outcome(&cpu(), case);
    for (precision, tolerance) in PRECISIONS {
        let rounds = case.chained && precision == Precision::Bf16;
        let tolerance = if rounds { CHAINED } else { tolerance };
        with_cuda(precision, |device| {
            for ((name, ours), (_, theirs)) in outcome(device, case).iter().zip(&expected) {
                let error = relative_error(ours, theirs);
                let what = format!("{}, {precision:?}: {name}", case.graph.name());
                // A gradient that cancels to nearly zero has no significant digits.
                let size = theirs.iter().map(|v| f64::from(v.abs())).fold(0.0, f64::max);
                assert!(error < tolerance || size < 1e-4, "{what}: {error:.2e} off");
            }
        });
    }
}
