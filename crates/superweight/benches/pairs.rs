//! Eq. 2 over all pairs of layers of the largest ensemble of the paper: how long does deciding take once gradients are
//! summed? `cargo bench -p superweight --bench pairs`

use superweight::plan::{Clustering, LayerId, Member, PlanRequest, SharingPlan};
use superweight::search::{LayerNumbers, compare};

fn main() {
    divan::main();
}

fn plan(clusters: Clustering) -> SharingPlan {
    let member = |name: &str| {
        let architecture: superweight::plan::arch::ArchName = name.parse().expect("a name");
        Member { input: architecture.usual_input(), architecture, classes: 100 }
    };
    let members = ["wrn-28-7", "wrn-28-4", "wrn-16-7", "wrn-16-4"].map(member).to_vec();
    let request = PlanRequest { clusters, ..PlanRequest::new(members, 18_000_000) };
    request.plan().expect("18M pay for it")
}

#[divan::bench(args = [1, 4], sample_count = 5, sample_size = 1)]
fn multi_depth_width(bencher: divan::Bencher, bins: usize) {
    let plan = plan(Clustering::Depth(bins));
    let of = |&id: &LayerId| {
        let len = plan.layer(id).len();
        (id, (0..len).map(|n| (n % 97) as f32 - 48.0).collect())
    };
    let numbers: LayerNumbers = plan.clusters.iter().flat_map(|cluster| &cluster.layers).map(of).collect();
    bencher.bench_local(|| compare(&plan, &numbers, "Σ dL/dW").expect("finite numbers"));
}
