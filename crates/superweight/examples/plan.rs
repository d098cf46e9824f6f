//! Plans what three networks share within one parameter budget, without training.
//!
//! `cargo run --release -p superweight --example plan`

use superweight::plan::arch::ImageShape;
use superweight::plan::{Member, PlanRequest};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let member = |name: &str| -> Result<Member, Box<dyn std::error::Error>> {
        Ok(Member { architecture: name.parse()?, input: ImageShape::CIFAR, classes: 100 })
    };
    let members = vec![member("wrn-28-7")?, member("wrn-28-4")?, member("wrn-28-3")?];
    let plan = PlanRequest::new(members, Some(18_000_000)).plan()?;
    println!("{} of {} parameters", plan.bill.total(), plan.dense_total());
    for (part, count) in plan.bill.parts() {
        println!("{part:>14} {count:>12}");
    }
    println!("{} clusters of layers share templates", plan.clusters.len());
    Ok(())
}
