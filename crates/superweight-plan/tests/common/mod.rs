//! Requests as the tests write them.

use superweight_plan::arch::ArchName;
use superweight_plan::{Member, PlanRequest};

/// `wrn-28-10,wrn-16-4` on the usual images.
pub fn members(names: &str, classes: usize) -> Vec<Member> {
    let member = |name: &str| {
        let architecture: ArchName = name.parse().unwrap();
        Member { input: architecture.default_input(), architecture, classes }
    };
    names.split(',').map(member).collect()
}

#[allow(dead_code, reason = "not every test file plans from words")]
pub fn request(names: &str, classes: usize, budget: u64, clusters: &str) -> PlanRequest {
    PlanRequest {
        clusters: clusters.parse().unwrap(),
        ..PlanRequest::new(members(names, classes), budget)
    }
}
