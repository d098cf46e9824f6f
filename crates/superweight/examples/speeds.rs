//! How fast do templates and coefficients learn beside plain weights? The share of itself that the
//! first step would change,
//! |gradient|/|numbers|, of each over that of the weights it makes.
//!
//! ```text
//! cargo run --release -p superweight --example speeds -- RECIPE IMAGES [KEY=VALUE …]
//! cargo run --release -p superweight --example speeds -- recipes/table-1/cifar-100-1-no-search.toml 16 plan.scale=even
//! ```
//!
//! The first training images of the recipe's data, as they are; the plan that its training would
//! start from; the CPU.

use std::error::Error;
use std::path::Path;

use superweight::model::bank;
use superweight::model::bank::{coefficients_name, bank_name, patterns_name, templates_name, weight_name};
use superweight::data::standard_folder;
use superweight::engine::CpuDevice;
use superweight::model::ensemble::{Ensemble, EnsembleOptions};
use superweight::plan::{LayerId, SetId};
use superweight::recipe::Recipe;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [recipe, images, overrides @ ..] = &arguments[..] else {
        return Err("at least two arguments: RECIPE IMAGES [KEY=VALUE …]".into());
    };
    let (resolved, count) =
        (Recipe::load(Path::new(recipe), overrides)?.resolve()?, images.parse()?);
    let plan = resolved.train_request()?.plan()?;
    let data = resolved.data.open(&standard_folder()?)?;
    if !(1..=data.train.len()).contains(&count) {
        return Err(format!("{} has 1 to {} images to take", data.name, data.train.len()).into());
    }
    let pixel = |(i, &byte): (usize, &u8)| {
        let channel = i % data.normalization.mean.len();
        (f32::from(byte) - data.normalization.mean[channel]) / data.normalization.std[channel]
    };
    let batch: Vec<f32> = (0..count)
        .flat_map(|n| data.train.image(n).iter().enumerate().map(pixel).collect::<Vec<_>>())
        .collect();
    let classes: Vec<u32> =
        data.train.labels[..count].iter().map(|&label| u32::from(label)).collect();

    let mut ensemble = Ensemble::new(&CpuDevice::new(0)?, &plan, &EnsembleOptions::train(count))?;
    bank::initialize(&plan, ensemble.memory_mut(), resolved.seed)?;
    ensemble.set_batch(&batch, &classes)?;
    ensemble.gradients()?;

    let memory = ensemble.memory();
    let squares = |numbers: Vec<f32>| numbers.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
    let share = |names: &[String]| -> Result<f64, Box<dyn Error>> {
        let (mut gradient, mut numbers) = (0.0, 0.0);
        for name in names {
            gradient += squares(memory.gradient(name)?);
            numbers += squares(memory.parameter(name)?);
        }
        Ok((gradient / numbers).sqrt())
    };
    for (i, set) in plan.template_sets.iter().enumerate() {
        // A set that looks at a bank makes one layer, the bank all of its cluster.
        let layers = &plan.clusters[set.cluster.0].layers;
        let names: Vec<String> = layers.iter().map(|&id| weight_name(&plan, id)).collect();
        let plain = share(&names)?;
        let templates = match set.view {
            Some(_) => share(&[bank_name(set.cluster)])?,
            None => share(&[templates_name(SetId(i))])?,
        } / plain;
        print!(
            "set {i}, {:?}, {} layers, K = {}: templates {templates:.3}",
            set.block,
            layers.len(),
            set.templates
        );
        if set.templates > 1 {
            let mine = |id: &LayerId| {
                plan.layers[id.0]
                    .tiles
                    .iter()
                    .any(|tile| plan.superweight(tile.superweight).set == SetId(i))
            };
            let made: Vec<String> =
                layers.iter().filter(|id| mine(id)).map(|&id| weight_name(&plan, id)).collect();
            let plain = share(&made)?;
            print!(", coefficients {:.3}", share(&[coefficients_name(SetId(i))])? / plain);
            if plan.has_patterns() {
                print!(", patterns {:.3}", share(&[patterns_name(SetId(i))])? / plain);
            }
        }
        println!();
    }
    Ok(())
}
