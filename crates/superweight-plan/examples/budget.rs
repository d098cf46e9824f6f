//! Plans three networks in half of their parameters; prints the parameters by part and the
//! clusters.
//!
//! `cargo run -p superweight-plan --example budget`

use superweight_plan::{ClusterId, Clustering, Member, PlanRequest};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut members = vec![];
    for name in ["wrn-28-7", "wrn-28-4", "wrn-28-3"] {
        let architecture: superweight_plan::arch::ArchName = name.parse()?;
        members.push(Member { input: architecture.default_input(), architecture, classes: 100 });
    }
    let mut request = PlanRequest::new(members, None);
    request.clusters = Clustering::Depth(4);
    request.budget = Some(request.dense_total()? / 2);

    let plan = request.plan()?;
    println!("{} tiling, {} of {}", plan.tiling, plan.bill.total(), plan.dense_total());
    for (part, parameters) in plan.bill.parts() {
        println!("  {part:<12} {parameters:>9}");
    }
    for (i, cluster) in plan.clusters.iter().enumerate() {
        let parameters = plan.cluster_parameters(ClusterId(i));
        let first = plan.layer(cluster.layers[0]);
        println!("cluster {i}: {} {} layers, {parameters}", cluster.layers.len(), first.family());
    }
    Ok(())
}
