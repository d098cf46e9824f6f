//! What search and refinement cost: Eq. 2 over all pairs of the largest ensemble of the paper, and a step that is looked
//! at beside one that is not. `cargo bench -p superweight --bench search`

use divan::Bencher;
use superweight::bank;
use superweight::engine::CpuDevice;
use superweight::ensemble::{Ensemble, EnsembleOptions};
use superweight::plan::arch::ArchName;
use superweight::plan::{Clustering, LayerId, Member, PlanRequest, SharingPlan};
use superweight::search::{AlphaSums, GradientSums, LayerNumbers, compare};

fn main() {
    divan::main();
}

fn plan(members: &[&str], budget: u64, clusters: Clustering) -> SharingPlan {
    let member = |name: &&str| {
        let architecture: ArchName = name.parse().expect("a name");
        Member { input: architecture.usual_input(), architecture, classes: 100 }
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
    let numbers: LayerNumbers = plan.clusters.iter().flat_map(|cluster| &cluster.layers).map(of).collect();
    bencher.bench_local(|| compare(&plan, &numbers, "Σ dL/dW").expect("finite numbers"));
}

fn ensemble() -> Ensemble<CpuDevice> {
    let plan = plan(&["wrn-10-2", "wrn-10-1"], 150_000, Clustering::Single);
    let device = CpuDevice::new(0).expect("threads");
    let mut ensemble = Ensemble::new(&device, &plan, &EnsembleOptions::train(32)).expect("it compiles");
    bank::initialise(&plan, ensemble.memory_mut(), 1).expect("it fits");
    ensemble.set_batch(&vec![0.5; 32 * 32 * 32 * 3], &[0; 32]).expect("a batch");
    ensemble
}

#[divan::bench(sample_count = 40, sample_size = 1)]
fn step(bencher: Bencher) {
    let mut ensemble = ensemble();
    bencher.bench_local(|| ensemble.gradients());
}

#[divan::bench(sample_count = 40, sample_size = 1)]
fn step_with_sums_of_dw(bencher: Bencher) {
    let mut ensemble = ensemble();
    let mut sums = GradientSums::new(ensemble.plan(), ensemble.memory()).expect("room");
    bencher.bench_local(|| {
        ensemble.gradients().expect("a step");
        sums.observe(ensemble.memory());
    });
}

#[divan::bench(sample_count = 40, sample_size = 1)]
fn step_with_sums_of_dalpha(bencher: Bencher) {
    let mut ensemble = ensemble();
    let plan = ensemble.plan().clone();
    let mut sums = AlphaSums::new(&plan, ensemble.memory()).expect("room");
    bencher.bench_local(|| {
        ensemble.gradients().expect("a step");
        sums.observe(ensemble.memory_mut()).expect("a look");
    });
}
