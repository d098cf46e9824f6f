//! Members and requests from short texts, for the tests.

use superweight_plan::arch::ArchName;
use superweight_plan::{Member, PlanRequest};

/// Members from comma-separated names (`wrn-28-10,wrn-16-4`), each with its default input shape.
pub fn members(names: &str, classes: usize) -> Vec<Member> {
    let member = |name: &str| {
        let architecture: ArchName = name.parse().unwrap();
        Member { input: architecture.default_input(), architecture, classes }
    };
    names.split(',').map(member).collect()
}

/// A request with clusters from text (`single`, `depth:4`) and defaults for the rest.
#[allow(dead_code, reason = "not every test file uses it")]
pub fn request(names: &str, classes: usize, budget: u64, clusters: &str) -> PlanRequest {
    PlanRequest {
        clusters: clusters.parse().unwrap(),
        ..PlanRequest::new(members(names, classes), budget)
    }
}
