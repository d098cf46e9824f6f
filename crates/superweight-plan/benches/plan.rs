//! Speed of planning. Targets: group 1,000 layers in under a second, plan an ensemble in under 50
//! ms.
//!
//! `cargo bench -p superweight-plan`

use divan::{Bencher, black_box};
use superweight_plan::arch::ArchName;
use superweight_plan::{
    Assignment, LayerId, Member, Pair, PlanRequest, SharingPlan, assign, merges,
};

fn main() {
    divan::main();
}

/// Random similarities of all pairs of this many layers.
fn pairs(layers: usize) -> (Vec<LayerId>, Vec<Pair>) {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    let pairs = (0..layers).flat_map(|b| (0..b).map(move |a| (LayerId(a), LayerId(b))));
    ((0..layers).map(LayerId).collect(), pairs.map(|(a, b)| Pair::new(a, b, next())).collect())
}

#[divan::bench(args = [118, 1000])]
fn algorithm_1(bencher: Bencher, layers: usize) {
    let (layers, pairs) = pairs(layers);
    bencher.bench(|| assign(&layers, &pairs, black_box(0.1), Assignment::Merge).unwrap());
}

#[divan::bench(args = [118, 1000])]
fn algorithm_1_merges(bencher: Bencher, layers: usize) {
    let (layers, pairs) = pairs(layers);
    bencher.bench(|| merges(&layers, black_box(&pairs)).unwrap());
}

/// A request for four wide residual networks.
fn ensemble(budget: u64) -> PlanRequest {
    let member = |name: &str| {
        let architecture: ArchName = name.parse().unwrap();
        Member { input: architecture.default_input(), architecture, classes: 100 }
    };
    let members = ["wrn-34-8", "wrn-28-12", "wrn-28-10", "wrn-28-8"].map(member);
    PlanRequest { clusters: "depth:4".parse().unwrap(), ..PlanRequest::new(members.into(), budget) }
}

#[divan::bench(args = [7_000_000, 36_500_000])]
fn heterogeneous_ensemble(bencher: Bencher, budget: u64) {
    let request = ensemble(budget);
    bencher.bench(|| black_box(&request).plan().unwrap());
}

#[divan::bench(args = [7_000_000, 36_500_000])]
fn read_and_validate(bencher: Bencher, budget: u64) {
    let json = ensemble(budget).plan().unwrap().to_json();
    bencher.bench(|| SharingPlan::from_json(black_box(&json)).unwrap());
}
