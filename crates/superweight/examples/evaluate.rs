//! Evaluates every member of a run and every ensemble of its members on the test images.
//!
//! `cargo run --release -p superweight --example evaluate -- runs/example`

use std::path::Path;

use superweight::data::EvalSplit;
use superweight::engine::CpuDevice;
use superweight::infer::evaluate;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let run = std::env::args().nth(1).ok_or("usage: evaluate RUN")?;
    let record = evaluate(Path::new(&run), &CpuDevice::new(0)?, EvalSplit::Test)?;
    for subset in &record.report.subsets {
        let (members, figures) = (subset.members.to_string(), subset.figures);
        println!("{members:>8}  {:.2}%  NLL {:.3}", figures.top1, figures.nll);
    }
    Ok(())
}
