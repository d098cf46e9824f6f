//! Three Nesterov steps of shared networks against PyTorch 2.11 in double precision.
//!
//! The losses are compared, and every parameter and statistic after the last step. The networks use
//! weight decay of shared parameters and of a composed classifier's weights, and ghost batches.
//!
//! The plans are those of `swn plan --members wrn-10-1 --classes 10 --input 3x16x16` with
//!
//! ```text
//! kronecker  --coefficients own --budget 40% --tiling kronecker --block 8 --share-classifier=true
//! grid       --coefficients own --budget 40% --tiling grid --block 8 --share-classifier=true
//! nested     --coefficients own --budget 70% --tiling nested --share-classifier=false
//! shared     --coefficients shared --reserve 0 --budget 40% --tiling kronecker --block 8
//! ```
//!
//! The script that wrote all other fixtures is `fixtures/training.py`.

#[path = "../../superweight-engine/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;

use common::{hashed, name_seed, on_every_device};
use serde::Deserialize;
use superweight::engine::{Device, Memory, SgdOptions};
use superweight::model::OutputId;
use superweight::model::bank;
use superweight::model::ensemble::{Ensemble, EnsembleOptions, ParameterKind};
use superweight::plan::{LayerId, SetId, SharingPlan, VectorKind};

const BATCH: usize = 8;
const DECAY: f32 = 5e-3;
const SHARED_DECAY: f32 = 0.5 * DECAY;

/// Results of PyTorch for one plan.
#[derive(Deserialize)]
struct Case {
    /// Loss of each step.
    losses: Vec<f64>,
    /// L2 norm, first, middle and last element of every tensor after the last step.
    after: BTreeMap<String, [f64; 4]>,
}

/// Sets a tensor to hashes of its name and of each element's index, scaled and shifted.
fn set<D: Device>(memory: &mut Memory<D>, name: String, scale: f64, offset: f64) {
    let len = memory.layout().parameter(&name).unwrap().len;
    let values = hashed(name_seed(&name), len).into_iter();
    let values: Vec<f32> = values.map(|v| (offset + scale * f64::from(v)) as f32).collect();
    memory.set_parameter(&name, &values).unwrap();
}

/// Sets all parameters and statistics to the initial values of the script's `start`.
fn start<D: Device>(plan: &SharingPlan, memory: &mut Memory<D>) {
    let root = 3f64.sqrt();
    let patterns = bank::pattern_rows(plan);
    for (i, of) in plan.template_sets.iter().enumerate() {
        let id = SetId(i);
        set(memory, bank::templates_name(id), root * of.std, 0.0);
        if of.templates > 1 {
            set(
                memory,
                bank::coefficients_name(id),
                root * of.row_norm / (of.templates as f64).sqrt(),
                0.0,
            );
        }
        if patterns[i] > 0 {
            set(memory, bank::patterns_name(id), root * of.gain, 0.0);
        }
    }
    for (i, planned) in
        plan.layers.iter().enumerate().filter(|(_, planned)| planned.tiles.is_empty())
    {
        let layer = &planned.layer;
        let fan_in = layer.inp * layer.kernel.iter().product::<usize>();
        set(memory, bank::weight_name(plan, LayerId(i)), (6.0 / fan_in as f64).sqrt(), 0.0);
    }
    for vector in &plan.vectors {
        let (scale, offset) = match vector.kind {
            VectorKind::NormScale => (0.1, 0.5),
            VectorKind::NormShift => (0.3, 1.0),
            VectorKind::Bias => (0.1, 0.0),
        };
        set(memory, bank::scope(vector.member) + &vector.name, scale, offset);
        if vector.kind == VectorKind::NormScale {
            let of = |what: &str| bank::scope(vector.member) + &vector.name.replace("weight", what);
            memory.set_statistic(&of("running_mean"), &vec![0.0; vector.len as usize]).unwrap();
            memory.set_statistic(&of("running_var"), &vec![1.0; vector.len as usize]).unwrap();
        }
    }
}

/// Trains the plan for three steps and compares it with the case of this name.
fn compare<D: Device>(device: &D, name: &str, plan: &str) {
    let cases: BTreeMap<String, Case> =
        serde_json::from_str(include_str!("fixtures/training.json")).expect("the script's file");
    let Case { losses, after } = &cases[name];
    let plan = SharingPlan::from_json(plan).unwrap();
    let options = EnsembleOptions {
        bn_batch_size: 4,
        classifier_decay: DECAY,
        ..EnsembleOptions::train(BATCH)
    };
    let mut ensemble = Ensemble::new(device, &plan, &options).unwrap();
    start(&plan, ensemble.memory_mut());
    let weight_decay = |kind| match kind {
        ParameterKind::ClassifierTemplates | ParameterKind::ClassifierCoefficients => 0.0,
        ParameterKind::Templates | ParameterKind::Coefficients => SHARED_DECAY,
        _ => DECAY,
    };
    let mut sgd =
        ensemble.optimizer(SgdOptions { momentum: 0.9, nesterov: true }, weight_decay).unwrap();
    sgd.set_lrs(&[0.05; ParameterKind::ALL.len()]).unwrap();
    let images = hashed(name_seed("images"), BATCH * 16 * 16 * 3);
    let labels: Vec<u32> = (0..BATCH as u32).map(|i| (i * 7 + 3) % 10).collect();
    let mut recording = None;
    for (step, expected) in losses.iter().enumerate() {
        ensemble.set_batch(&images, &labels).unwrap();
        let mut body = || {
            ensemble.gradients()?;
            ensemble.update(&mut sgd);
            Ok(())
        };
        // As in training: directly at first, then from a recording if the device makes such.
        if step == 1 {
            recording = device.record(&mut body).unwrap();
        }
        recording.as_ref().map_or_else(&mut body, |recording| device.replay(recording)).unwrap();
        let loss = f64::from(ensemble.metrics(OutputId(0)).unwrap().loss);
        assert!(
            (loss - expected).abs() < 1e-5 * expected,
            "{name}, step {step}: {loss}, not {expected}"
        );
    }
    let memory = ensemble.memory();
    let mut worst = (0f64, "");
    for (tensor, expected) in after {
        let is_statistic = tensor.contains(".running_");
        let values =
            if is_statistic { memory.statistic(tensor) } else { memory.parameter(tensor) }.unwrap();
        let [first, middle, last] =
            [0, values.len() / 2, values.len() - 1].map(|i| f64::from(values[i]));
        let length = values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
        let rms = expected[0] / (values.len() as f64).sqrt();
        let found = [length, first, middle, last];
        let errors = found.iter().zip(expected).zip([expected[0], rms, rms, rms]);
        let error = errors
            .map(|((found, expected), scale)| (found - expected).abs() / scale)
            .fold(0.0, f64::max);
        assert!(error < 1e-4, "{name}, {tensor}: {found:?}, not {expected:?}");
        worst = if error > worst.0 { (error, tensor) } else { worst };
    }
    println!("{name}: {} tensors, worst relative error {:.1e} ({})", after.len(), worst.0, worst.1);
}

#[test]
fn kronecker_with_a_composed_classifier() {
    on_every_device!(|device| {
        compare(device, "kronecker", include_str!("fixtures/training/kronecker.json"));
    });
}

#[test]
fn grid_with_a_composed_classifier() {
    on_every_device!(|device| {
        compare(device, "grid", include_str!("fixtures/training/grid.json"));
    });
}

#[test]
fn nested() {
    on_every_device!(|device| {
        compare(device, "nested", include_str!("fixtures/training/nested.json"));
    });
}

#[test]
fn kronecker_with_shared_coefficients() {
    on_every_device!(|device| {
        compare(device, "shared", include_str!("fixtures/training/shared.json"));
    });
}
