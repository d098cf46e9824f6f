//! Searches which layers share parameters, and prints the clusters.
//!
//! `cargo run --release -p superweight --example search`

use superweight::engine::CpuDevice;
use superweight::recipe::Recipe;
use superweight::train::{Limits, Request, Session};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let recipe: Recipe = "
        name = 'example-search'
        members = ['wrn-16-1']
        budget = '40%'
        data.name = 'fashion-mnist-10k'
        search.epochs = 1
        search.tau = 0.0
        search.min_templates = 2
        plan.clusters = 'single'
        train.epochs = 2
    "
    .parse()?;
    let mut session = Session::create(&CpuDevice::new(0)?, Request::new(&recipe, "runs")?)?;
    let before = session.plan().clusters.len();
    session.run(&Limits { search_only: true, ..Limits::default() }, &mut ())?;
    println!("{before} clusters before the search, {} after it", session.plan().clusters.len());
    for (number, cluster) in session.plan().clusters.iter().enumerate() {
        let name = |&id| session.plan().layer(id).name.clone();
        let layers: Vec<String> = cluster.layers.iter().map(name).collect();
        println!("cluster {number}: {}", layers.join(", "));
    }
    Ok(())
}
