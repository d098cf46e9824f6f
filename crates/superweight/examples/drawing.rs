//! How many images of a set are drawn in a second, by one thread, in the order of training: from
//! memory or from the disk.
//!
//! ```text
//! cargo run --release -p superweight --example drawing -- NAME BATCH BATCHES
//! SWN_IMAGES_MIB=0 cargo run --release -p superweight --example drawing -- NAME BATCH BATCHES
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use superweight::data::{Augment, Batches, Dataset, Phase, Split, TrainBatches, standard_folder};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, size, count] = &arguments[..] else {
        return Err("three arguments: NAME BATCH BATCHES".into());
    };
    let (size, count): (usize, u64) = (size.parse()?, count.parse()?);
    let begin = Instant::now();
    let data = Arc::new(Dataset::open(name, &standard_folder()?)?);
    let place = if data.on_disk().is_some() { "on disk" } else { "in memory" };
    println!(
        "{} images {place}, opened in {:.2} s",
        data.train.len(),
        begin.elapsed().as_secs_f64()
    );
    let (set, all) = (data.image_set(Split::Train), (0..data.train.len() as u32).collect());
    let augment = Augment { pad: 0, cutout: 0, stretch: Some(0.08), ..Augment::CIFAR };
    let mut batches = TrainBatches::new(data, all, size, augment, 0, Phase::Train)?;
    let (mut draws, mut image) = (batches.buffer(), vec![0.0; set.shape.len()]);
    let (begin, mut waited) = (Instant::now(), 0.0);
    for step in 0..count {
        batches.fill(step, &mut draws)?;
        let from = Instant::now();
        let range =
            |image: u32| image as usize * set.shape.len()..(image as usize + 1) * set.shape.len();
        draws.iter().for_each(|draw| set.pixels.prefetch(range(draw.image)));
        // Reading a byte of each page waits for it.
        let pages = |draw: &superweight_engine::ImageSample| {
            set.pixels.bytes()[range(draw.image)]
                .iter()
                .step_by(4096)
                .map(|&byte| u64::from(byte))
                .sum::<u64>()
        };
        std::hint::black_box(draws.iter().map(pages).sum::<u64>());
        waited += from.elapsed().as_secs_f64();
        draws.iter().for_each(|draw| set.render(draw, &mut image));
    }
    let (seconds, images) = (begin.elapsed().as_secs_f64(), (size as u64 * count) as f64);
    println!(
        "{:.1} µs an image, {:.1} of them waiting",
        1e6 * seconds / images,
        1e6 * waited / images
    );
    Ok(())
}
