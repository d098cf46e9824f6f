//! Corrupted images for `swn eval`: published files, or the evaluated images corrupted here.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use superweight::corrupt::{
    CorruptError, Corruption, Corruptor, FROST_FILES, FrostTexture, FrostTextures, IMAGE_LEN,
    Severity,
};
use superweight::data::{Images, Normalization, Picture, corrupted};
use superweight::engine::Device;
use superweight::evaluate::{CorruptedReport, CorruptionsRecord, SetReport, average};
use superweight::infer::{Networks, Trained};
use superweight::model::Subset;
use superweight::plan::arch::ImageShape;

use crate::args::EvalArgs;

/// The corrupted sets that were requested.
pub(super) struct CorruptionRequest {
    source: Source,
    kinds: Vec<Corruption>,
    severities: Vec<Severity>,
    seed: u64,
}

/// Where corrupted images come from.
enum Source {
    /// Folder of the published files.
    Published(PathBuf),
    /// Made here from the clean images.
    Regenerated(Corruptor),
}

/// Reads and checks the flags about corruptions, before the first image is evaluated.
pub(super) fn prepare(args: &EvalArgs, trained: &Trained) -> Result<Option<CorruptionRequest>> {
    if args.corrupted.is_none() && args.corruptions.is_empty() {
        return Ok(None);
    }
    let shape = trained.resolved.data.shape;
    ensure!(
        shape == ImageShape::CIFAR,
        "--corruptions and --corrupted need 3×32×32 images; those of {} are {}×{}×{}",
        trained.resolved.data.name,
        shape.channels,
        shape.height,
        shape.width
    );
    ensure!(
        !args.validation || args.corrupted.is_none(),
        "--corrupted has test images only: leave --validation out"
    );
    let severities: Vec<Severity> = args
        .severities
        .iter()
        .map(|&s| Severity::new(s))
        .collect::<Result<_, _>>()
        .context("--severities")?;
    let all = args.corrupted.is_some() || args.corruptions == ["all"];
    let mut kinds = match all {
        true => Corruption::ALL.to_vec(),
        false => {
            let kinds = args.corruptions.iter().map(|name| name.parse()).collect::<Result<_, _>>();
            kinds.context("--corruptions")?
        }
    };
    let source = match &args.corrupted {
        Some(folder) => {
            kinds.retain(|kind| folder.join(format!("{kind}.npy")).is_file());
            ensure!(
                !kinds.is_empty(),
                "--corrupted {}: the folder has no file such as fog.npy",
                folder.display()
            );
            Source::Published(folder.clone())
        }
        None => {
            let corruptor =
                Corruptor::new(args.seed, args.frost.as_deref().map(textures).transpose()?);
            if all && !corruptor.can(Corruption::Frost) {
                eprintln!(
                    "warning: frost and the averages that include it are left out; '--frost DIR' names the folder of its textures"
                );
                kinds.retain(|&kind| corruptor.can(kind));
            }
            ensure!(kinds.iter().all(|&kind| corruptor.can(kind)), CorruptError::NoTextures);
            Source::Regenerated(corruptor)
        }
    };
    Ok(Some(CorruptionRequest { source, kinds, severities, seed: args.seed }))
}

/// Loads the textures of frost from a folder.
fn textures(folder: &Path) -> Result<FrostTextures> {
    let load = |name: &str| -> Result<FrostTexture> {
        let picture = Picture::open(&folder.join(name))?;
        Ok(FrostTexture::new(picture.height, picture.width, &picture.rgb)?)
    };
    let all: Vec<_> =
        FROST_FILES.iter().map(|name| load(name)).collect::<Result<_>>().context("--frost")?;
    Ok(FrostTextures(all.try_into().expect("as many textures as names")))
}

impl CorruptionRequest {
    /// Evaluates the networks on every corrupted set and keeps the predicted classes.
    pub(super) fn evaluate<D: Device>(
        &self,
        networks: &mut Networks<D>,
        subsets: &[Subset],
        clean: &Images,
        normalization: &Normalization,
        folder: &Path,
    ) -> Result<CorruptionsRecord> {
        let mut sets = vec![];
        for (&kind, &severity) in
            self.kinds.iter().flat_map(|k| self.severities.iter().map(move |s| (k, s)))
        {
            let images = self.images(kind, severity, clean, networks.classes())?;
            let mut predictions = networks.predict(&images, normalization, |_| ())?;
            predictions.about.insert(
                "corruption".to_owned(),
                format!("{kind} {severity}, {}", self.source_name()),
            );
            predictions
                .to_classes()
                .save(&folder.join(format!("{kind}-{severity}.classes.safetensors.gz")))?;
            sets.push(CorruptedReport {
                kind,
                severity,
                report: SetReport::brief(&predictions, subsets),
            });
        }
        let tables =
            [Corruption::standard().to_vec(), Corruption::earlier(), Corruption::ALL.to_vec()];
        let averages = tables.iter().filter_map(|kinds| average(&sets, kinds)).collect();
        let seed = matches!(self.source, Source::Regenerated(_)).then_some(self.seed);
        Ok(CorruptionsRecord { source: self.source_name(), seed, sets, averages })
    }

    fn source_name(&self) -> String {
        match &self.source {
            Source::Published(folder) => folder.display().to_string(),
            Source::Regenerated(_) => CorruptionsRecord::REGENERATED.to_owned(),
        }
    }

    /// The images of one corruption at one severity, as many as there are clean ones.
    fn images(
        &self,
        kind: Corruption,
        severity: Severity,
        clean: &Images,
        classes: usize,
    ) -> Result<Images> {
        match &self.source {
            Source::Published(folder) => {
                let mut images = corrupted(folder, kind.name(), severity.get().into(), classes)?;
                ensure!(
                    clean.len() <= images.len(),
                    "--corrupted {}: {kind}.npy has {} images, fewer than the {} test images",
                    folder.display(),
                    images.len(),
                    clean.len()
                );
                images.pixels.make_mut().truncate(clean.len() * IMAGE_LEN);
                images.labels.truncate(clean.len());
                Ok(images)
            }
            Source::Regenerated(corruptor) => {
                let mut pixels = Vec::with_capacity(clean.pixels.len());
                for index in 0..clean.len() {
                    pixels.extend(corruptor.corrupt(
                        kind,
                        severity,
                        index as u64,
                        clean.image(index),
                    )?);
                }
                Ok(Images { pixels: pixels.into(), labels: clean.labels.clone() })
            }
        }
    }
}
