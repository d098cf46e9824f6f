//! Corrupted sets: published files, or made here from the images that were just evaluated.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use superweight::corrupt::{
    CorruptError, Corruption, Corruptor, FROST_FILES, FrostTexture, FrostTextures, IMAGE_LEN,
    Severity,
};
use superweight::data::{Images, Normalization, Picture, corrupted};
use superweight::engine::Device;
use superweight::evaluate::{CorruptedReport, SetReport, average};
use superweight::model::Subset;
use superweight::infer::{Networks, Trained};
use superweight::plan::arch::ImageShape;

use super::Corruptions;
use crate::args::EvalArgs;

/// Which sets, and where they come from. Everything that can be wrong is seen before the first image.
pub(super) struct Making {
    from: From,
    kinds: Vec<Corruption>,
    severities: Vec<Severity>,
    seed: u64,
}

enum From {
    Published(PathBuf),
    Made(Corruptor),
}

pub(super) fn prepare(args: &EvalArgs, trained: &Trained) -> Result<Option<Making>> {
    if args.corrupted.is_none() && args.corruptions.is_empty() {
        return Ok(None);
    }
    let shape = trained.resolved.data.shape;
    ensure!(
        shape == ImageShape::CIFAR,
        "--corruptions and --corrupted are for 3×32×32 images; {} has {}×{}×{}",
        trained.resolved.data.name,
        shape.channels,
        shape.height,
        shape.width
    );
    ensure!(
        !args.held_out || args.corrupted.is_none(),
        "--corrupted has test images: leave --held-out out"
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
    let from = match &args.corrupted {
        Some(folder) => {
            kinds.retain(|kind| folder.join(format!("{kind}.npy")).is_file());
            ensure!(!kinds.is_empty(), "--corrupted {}: no file such as fog.npy", folder.display());
            From::Published(folder.clone())
        }
        None => {
            let corruptor =
                Corruptor::new(args.seed, args.frost.as_deref().map(textures).transpose()?);
            if all && !corruptor.can(Corruption::Frost) {
                eprintln!(
                    "warning: frost is left out, and averages with it: '--frost DIR' names its textures"
                );
                kinds.retain(|&kind| corruptor.can(kind));
            }
            ensure!(kinds.iter().all(|&kind| corruptor.can(kind)), CorruptError::NoTextures);
            From::Made(corruptor)
        }
    };
    Ok(Some(Making { from, kinds, severities, seed: args.seed }))
}

fn textures(folder: &Path) -> Result<FrostTextures> {
    let load = |name: &str| -> Result<FrostTexture> {
        let picture = Picture::open(&folder.join(name))?;
        Ok(FrostTexture::new(picture.height, picture.width, &picture.rgb)?)
    };
    let all: Vec<_> =
        FROST_FILES.iter().map(|name| load(name)).collect::<Result<_>>().context("--frost")?;
    Ok(FrostTextures(all.try_into().expect("as many textures as names")))
}

impl Making {
    pub(super) fn evaluate<D: Device>(
        &self,
        networks: &mut Networks<D>,
        subsets: &[Subset],
        clean: &Images,
        normalization: &Normalization,
        folder: &Path,
    ) -> Result<Corruptions> {
        let mut sets = vec![];
        for (&kind, &severity) in
            self.kinds.iter().flat_map(|k| self.severities.iter().map(move |s| (k, s)))
        {
            let images = self.images(kind, severity, clean, networks.classes())?;
            let mut predictions = networks.predict(&images, normalization, |_| ())?;
            predictions
                .about
                .insert("corruption".to_owned(), format!("{kind} {severity}, {}", self.source()));
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
        let seed = matches!(self.from, From::Made(_)).then_some(self.seed);
        Ok(Corruptions { source: self.source(), seed, sets, averages })
    }

    fn source(&self) -> String {
        match &self.from {
            From::Published(folder) => folder.display().to_string(),
            From::Made(_) => "regenerated".to_owned(),
        }
    }

    fn images(
        &self,
        kind: Corruption,
        severity: Severity,
        clean: &Images,
        classes: usize,
    ) -> Result<Images> {
        match &self.from {
            From::Published(folder) => {
                let mut images = corrupted(folder, kind.name(), severity.get().into(), classes)?;
                ensure!(clean.len() <= images.len(), "more test images than corrupted ones");
                images.pixels.make_mut().truncate(clean.len() * IMAGE_LEN);
                images.labels.truncate(clean.len());
                Ok(images)
            }
            From::Made(corruptor) => {
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
