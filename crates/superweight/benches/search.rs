//! Cost of search and refinement: a step that sums gradients beside one that does not, and Eq. 2
//! over all pairs of the largest ensemble of the paper.
//!
//! ```text
//! cargo bench -p superweight --bench search
//! ```
//!
//! The steps alternate, and ratios are taken within each round. On a machine with other load the
//! medians of separate series differ by more than the effect.

use std::time::Instant;

use divan::Bencher;
use superweight::engine::CpuDevice;
use superweight::model::bank;
use superweight::model::ensemble::{Ensemble, EnsembleOptions};
use superweight::plan::arch::ArchName;
use superweight::plan::{Clustering, LayerId, Member, PlanRequest, SharingPlan};
use superweight::search::{
    CoefficientGradientSums, LayerTensors, WeightGradientSums, compare_layers,
};

/// Number of measured rounds of three steps.
const ROUNDS: usize = 60;

fn main() {
    steps();
    memory();
    divan::main();
}

/// A plan with shared parameters for these members.
fn plan(members: &[&str], budget: u64, clusters: Clustering) -> SharingPlan {
    let member = |name: &&str| {
        let architecture: ArchName = name.parse().expect("a name");
        Member { input: architecture.default_input(), architecture, classes: 100 }
    };
    let request = PlanRequest::new(members.iter().map(member).collect(), budget);
    PlanRequest { clusters, ..request }.plan().expect("the budget pays for it")
}

#[divan::bench(args = [1, 4], sample_count = 5, sample_size = 1)]
fn pairs_of_multi_depth_width(bencher: Bencher, bins: usize) {
    let members = ["wrn-28-7", "wrn-28-4", "wrn-16-7", "wrn-16-4"];
    let plan = plan(&members, 18_000_000, Clustering::Depth(bins));
    let of = |&id: &LayerId| {
        let len = plan.layer(id).len();
        (id, (0..len).map(|n| (n % 97) as f32 - 48.0).collect())
    };
    let tensors: LayerTensors =
        plan.clusters.iter().flat_map(|cluster| &cluster.layers).map(of).collect();
    bencher.bench_local(|| compare_layers(&plan, &tensors, "Σ dL/dW").expect("finite values"));
}

/// An ensemble with a batch of this many images, ready for a step.
fn ensemble(members: &[&str], budget: u64, batch: usize) -> Ensemble<CpuDevice> {
    let plan = plan(members, budget, Clustering::Single);
    let device = CpuDevice::new(0).expect("threads");
    let mut ensemble =
        Ensemble::new(&device, &plan, &EnsembleOptions::train(batch)).expect("it compiles");
    bank::initialize(&plan, ensemble.memory_mut(), 1).expect("it fits");
    ensemble.set_batch(&vec![0.5; batch * 32 * 32 * 3], &vec![0; batch]).expect("a batch");
    ensemble
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures a step without statistics, one with Σ dL/dW and one with Σ dL/dα.
///
/// The steps have no update, which would bring the ratios closer to one.
fn steps() {
    let mut ensemble = ensemble(&["wrn-10-2", "wrn-10-1"], 150_000, 64);
    let plan = ensemble.plan().clone();
    let mut weights = WeightGradientSums::new(&plan, ensemble.memory()).expect("room");
    let mut alphas = CoefficientGradientSums::new(&plan, ensemble.memory()).expect("room");
    let mut rows = vec![];
    for round in 0..=ROUNDS {
        let plain = seconds(|| ensemble.gradients().expect("a step"));
        let search = seconds(|| {
            ensemble.gradients().expect("a step");
            weights.observe(ensemble.memory());
        });
        let refine = seconds(|| {
            ensemble.gradients().expect("a step");
            alphas.observe(ensemble.memory_mut()).expect("a sum");
        });
        if round > 0 {
            rows.push([plain, search, refine]);
        }
    }
    let of = |i: usize| {
        let ms = 1e3 * median(rows.iter().map(|row| row[i]).collect());
        (ms, median(rows.iter().map(|row| row[i] / row[0]).collect()))
    };
    println!("a step of wrn-10-2 and wrn-10-1 in 150,000 parameters, batch 64, {ROUNDS} rounds:");
    println!("  without statistics {:>8.2} ms", of(0).0);
    println!(
        "  with the sum of dL/dW {:>5.2} ms, {:.3} of it (median over rounds)",
        of(1).0,
        of(1).1
    );
    println!("  with the sum of dL/da {:>5.2} ms, {:.3} of it", of(2).0, of(2).1);
}

/// Measures how much memory the sums add to the process, on systems with `/proc`.
fn memory() {
    let Some(_) = resident() else { return };
    let mut ensemble = ensemble(&["wrn-16-8", "wrn-16-4"], 3_000_000, 2);
    let plan = ensemble.plan().clone();
    let clustered = plan.clusters.iter().flat_map(|cluster| &cluster.layers);
    let copy: u64 = clustered.map(|&id| 4 * plan.layer(id).len()).sum();
    ensemble.gradients().expect("a step");
    let mut before = resident().unwrap_or(0);
    let mut grown = || {
        let now = resident().unwrap_or(0);
        let grown = now as f64 - before as f64;
        before = now;
        grown / copy as f64
    };
    let mut weights = WeightGradientSums::new(&plan, ensemble.memory()).expect("room");
    weights.observe(ensemble.memory());
    let search = grown();
    let mut alphas = CoefficientGradientSums::new(&plan, ensemble.memory()).expect("room");
    alphas.observe(ensemble.memory_mut()).expect("a sum");
    let refine = grown();
    println!(
        "memory, wrn-16-8 and wrn-16-4, in copies of their {:.1} MB of clustered weights:",
        copy as f64 / 1e6
    );
    println!("  the sum of dL/dW {search:.3}, the sum of dL/da {refine:.3}");
}

/// Resident memory of this process in bytes; `None` on systems without `/proc`.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(1024 * line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?)
}
