//! Trains two small networks that share parameters, on images that are part of the program.
//!
//! `cargo run --release -p superweight --example train`

use superweight::engine::CpuDevice;
use superweight::recipe::Recipe;
use superweight::train::{Limits, Request, Session};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let recipe: Recipe = "
        name = 'example'
        members = ['cnn-16-32', 'cnn-16']
        budget = '60%'
        data.name = 'fashion-mnist-10k'
        train = { epochs = 3, batch_size = 64, schedule = 'one-cycle', lr = 0.2 }
    "
    .parse()?;
    let mut session = Session::create(&CpuDevice::new(0)?, Request::new(&recipe, "runs")?)?;
    println!("{} parameters", session.plan().bill.trained());
    let outcome = session.run(&Limits::default(), &mut ())?;
    if let Some(test) = outcome.test {
        println!("test accuracy {:.1}%, NLL {:.3}", test.ensemble.top1, test.ensemble.nll);
    }
    println!("the run is in {}", outcome.folder.display());
    Ok(())
}
