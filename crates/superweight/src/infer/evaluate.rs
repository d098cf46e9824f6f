//! Evaluation of a run: the figures of every member and every ensemble, in one call.

use std::path::Path;
use std::time::Instant;

use superweight_engine::Device;

use super::error::InferError;
use super::networks::Networks;
use super::trained::Trained;
use crate::data::{EvalSplit, Images, standard_folder};
use crate::evaluate::{EvaluationRecord, Predictions, SetReport};

/// Images in a batch of [`evaluate`].
const BATCH: usize = 128;

/// Opens a run, evaluates its newest checkpoint on a split of its data set, and returns the figures
/// of every member and every ensemble: what `swn eval` prints without further flags. The data set
/// is read from the standard folder; no file is written.
///
/// ```no_run
/// use std::path::Path;
/// use superweight::data::EvalSplit;
/// use superweight::engine::CpuDevice;
///
/// let device = CpuDevice::new(0)?;
/// let record = superweight::infer::evaluate(Path::new("runs/mine"), &device, EvalSplit::Test)?;
/// for subset in &record.report.subsets {
///     println!("{}: top-1 {:.2}%", subset.members, subset.figures.top1);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn evaluate<D: Device>(
    run: &Path,
    device: &D,
    split: EvalSplit,
) -> Result<EvaluationRecord, InferError> {
    let trained = Trained::open(run)?;
    let images = trained.images(&trained.dataset(&standard_folder()?)?, split)?;
    let mut networks = trained.networks(device, BATCH.min(images.len()))?;
    Ok(evaluate_images(&trained, &mut networks, &images, split.name())?.0)
}

/// Evaluates a run's members on these images and returns the figures of every member and every
/// ensemble, with the logits they are computed from. `split` names the images in the record.
pub fn evaluate_images<D: Device>(
    trained: &Trained,
    networks: &mut Networks<D>,
    images: &Images,
    split: &str,
) -> Result<(EvaluationRecord, Predictions), InferError> {
    let outputs = trained.outputs();
    let subsets = outputs.subsets()?;
    let begin = Instant::now();
    let mut predictions = networks.predict(images, &trained.normalization()?, |_| ())?;
    let pass_seconds = begin.elapsed().as_secs_f64();
    let metadata = [
        ("run", trained.resolved.name.clone()),
        ("checkpoint", trained.stamp.number.to_string()),
        ("digest", trained.stamp.digest.clone()),
        ("data", format!("{} {split}", trained.resolved.data.name)),
        ("members", outputs.names().join(",")),
    ];
    predictions.about = metadata.map(|(key, value)| (key.to_owned(), value)).into();
    let begin = Instant::now();
    let report = SetReport::new(&predictions, &subsets);
    let record = EvaluationRecord {
        run: trained.run.clone(),
        checkpoint: trained.stamp.number,
        digest: trained.stamp.digest.clone(),
        data: trained.resolved.data.name.clone(),
        split: split.to_owned(),
        members: outputs.names().to_vec(),
        exits: outputs.nested(),
        report,
        by_class: vec![],
        corruptions: None,
        interpolation: None,
        pass_seconds,
        subsets_seconds: begin.elapsed().as_secs_f64(),
    };
    Ok((record, predictions))
}
