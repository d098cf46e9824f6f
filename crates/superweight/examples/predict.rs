//! Classifies pictures with a trained run.
//!
//! `cargo run --release -p superweight --example predict -- runs/example shoe.png bag.jpg`

use std::path::Path;

use superweight::data::Picture;
use superweight::engine::CpuDevice;
use superweight::infer::Trained;
use superweight::probability::most_probable;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let run = arguments.next().ok_or("usage: predict RUN PICTURE …")?;
    let trained = Trained::open(Path::new(&run))?;
    let mut networks = trained.networks(&CpuDevice::new(0)?, 1)?;
    let classes = trained.class_names()?;
    for file in arguments {
        let picture = Picture::open(Path::new(&file))?;
        let probabilities = networks.probabilities(&trained.input(&picture)?)?;
        let class = most_probable(&probabilities);
        println!("{file}: {} ({:.0}%)", classes[class], 100.0 * probabilities[class]);
    }
    Ok(())
}
