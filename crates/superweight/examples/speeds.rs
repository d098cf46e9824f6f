//! Prints how fast templates, coefficients and patterns learn compared with the weights that they
//! compose: the relative size |gradient|/|parameters| of the first step, divided by that of the
//! composed weights.
//!
//! ```text
//! cargo run --release -p superweight --example speeds -- RECIPE IMAGES [KEY=VALUE …]
//! cargo run --release -p superweight --example speeds -- \
//!     recipes/table-1/cifar-100-1-no-search.toml 16 plan.scale=even
//! ```
//!
//! The batch is the first IMAGES training images of the recipe's data, without augmentation. The
//! plan is the one that training would start from. The program runs on the CPU.

use std::error::Error;
use std::path::Path;

use superweight::data::standard_folder;
use superweight::engine::CpuDevice;
use superweight::model::bank;
use superweight::model::bank::{
    bank_name, coefficients_name, patterns_name, templates_name, weight_name,
};
use superweight::model::ensemble::{Ensemble, EnsembleOptions};
use superweight::plan::{LayerId, SetId};
use superweight::recipe::Recipe;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [recipe, images, overrides @ ..] = &arguments[..] else {
        return Err("usage: speeds RECIPE IMAGES [KEY=VALUE …]".into());
    };
    let (resolved, count) =
        (Recipe::load(Path::new(recipe), overrides)?.resolve()?, images.parse()?);
    let plan = resolved.train_request()?.plan()?;
    let data = resolved.data.open(&standard_folder()?)?;
    if !(1..=data.train.len()).contains(&count) {
        let (name, len) = (&data.name, data.train.len());
        return Err(format!("IMAGES is from 1 to {len}, the training images of {name}").into());
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
    let squares = |values: Vec<f32>| values.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
    let relative_step = |names: &[String]| -> Result<f64, Box<dyn Error>> {
        let (mut gradient, mut parameters) = (0.0, 0.0);
        for name in names {
            gradient += squares(memory.gradient(name)?);
            parameters += squares(memory.parameter(name)?);
        }
        Ok((gradient / parameters).sqrt())
    };
    for (i, set) in plan.template_sets.iter().enumerate() {
        // A set that reads a bank serves one shape of layers, its bank all layers of the cluster.
        let layers = &plan.clusters[set.cluster.0].layers;
        let names: Vec<String> = layers.iter().map(|&id| weight_name(&plan, id)).collect();
        let plain = relative_step(&names)?;
        let templates = match set.view {
            Some(_) => relative_step(&[bank_name(set.cluster)])?,
            None => relative_step(&[templates_name(SetId(i))])?,
        } / plain;
        print!(
            "set {i}, {:?}, {} layers, K = {}: templates {templates:.3}",
            set.block,
            layers.len(),
            set.templates
        );
        if set.templates > 1 {
            let uses_set = |id: &LayerId| {
                plan.layers[id.0]
                    .tiles
                    .iter()
                    .any(|tile| plan.superweight(tile.superweight).set == SetId(i))
            };
            let composed: Vec<String> =
                layers.iter().filter(|id| uses_set(id)).map(|&id| weight_name(&plan, id)).collect();
            let plain = relative_step(&composed)?;
            print!(", coefficients {:.3}", relative_step(&[coefficients_name(SetId(i))])? / plain);
            if plan.has_patterns() {
                print!(", patterns {:.3}", relative_step(&[patterns_name(SetId(i))])? / plain);
            }
        }
        println!();
    }
    Ok(())
}
