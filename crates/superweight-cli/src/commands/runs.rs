//! Opening a trained run and choosing the images that it is used on.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use superweight::data::{Dataset, EvalSplit, Images, standard_folder};
use superweight::infer::Trained;

use crate::ui::{as_typed, typed};

/// Opens a run's newest checkpoint and prints the warnings about it.
pub fn open(run: &Path) -> Result<Trained> {
    let trained = Trained::open(run)?;
    trained.warnings.iter().for_each(|warning| eprintln!("warning: {}", as_typed(warning)));
    Ok(trained)
}

/// Returns another data set with the shape and classes that a run was trained on.
pub fn other_data(name: &str, trained: &Trained) -> Result<Dataset> {
    let data =
        Dataset::open(name, &standard_folder()?).with_context(|| format!("--data {name}"))?;
    let (shape, classes) = (trained.resolved.data.shape, trained.class_names()?);
    ensure!(
        data.shape == shape && data.classes == classes,
        "--data {name}: its images or classes differ from those of {}, which the run was trained on",
        trained.resolved.data.name
    );
    Ok(data)
}

/// Returns the images of a split of the run's data set, or the first of them.
pub fn images(
    trained: &Trained,
    data: &Dataset,
    split: EvalSplit,
    first: Option<usize>,
) -> Result<Images> {
    note_disk(data);
    let mut images = trained.images(data, split)?;
    if let Some(first) = first {
        ensure!(
            (1..=images.len()).contains(&first),
            "--images {first}: choose between 1 and {}",
            images.len()
        );
        let len = images.pixels.len() / images.len();
        images.pixels = images.pixels[..first * len].to_vec().into();
        images.labels.truncate(first);
    }
    Ok(images)
}

/// The split that `--validation` chooses.
pub fn split(validation: bool) -> EvalSplit {
    if validation { EvalSplit::Validation } else { EvalSplit::Test }
}

/// Prints a note if a set is read from the disk: such sets are not verified when they are opened.
pub fn note_disk(data: &Dataset) {
    if data.on_disk().is_some() {
        let verify = typed(&format!("data verify {}", data.name));
        eprintln!(
            "note: images are read from the disk without verification; '{verify}' verifies them"
        );
    }
}
