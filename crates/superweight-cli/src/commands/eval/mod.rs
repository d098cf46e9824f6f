//! `swn eval`: which images, through which members, into which table and files.

mod corruptions;
mod csv;
mod text;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use superweight::data::{Dataset, Images, ValidationSplit, standard_folder};
use superweight::engine::Device;
use superweight::evaluate::{ClassScore, CorruptedAverage, CorruptedReport, Predictions, SetReport, by_class};
use superweight::infer::{Line, Point};
use superweight::model::Subset;
use superweight::fs::write_whole;
use superweight::infer::{Networks, Trained};
use superweight::plan::MemberId;
use superweight::model::Outputs;

use super::check_writable;
use super::device::{self, on_device};
use crate::args::EvalArgs;

/// Points on the line between two members.
const POINTS: usize = 11;

/// Everything that is printed and kept.
#[derive(Serialize)]
pub(super) struct Answer {
    run: PathBuf,
    checkpoint: u64,
    digest: String,
    data: String,
    part: String,
    members: Vec<String>,
    /// Whether these are exits of one network.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    exits: bool,
    #[serde(flatten)]
    report: SetReport,
    /// The hardest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    by_class: Vec<Class>,
    #[serde(skip_serializing_if = "Option::is_none")]
    corruptions: Option<Corruptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interpolation: Option<Interpolation>,
    /// Of the pass over the images, and of the subsets after it.
    pass_seconds: f64,
    subsets_seconds: f64,
}

#[derive(Serialize)]
struct Class {
    class: String,
    images: usize,
    correct: usize,
    /// The other class that it is taken for most often, and how often.
    taken_for: Option<(String, usize)>,
}

#[derive(Serialize)]
struct Corruptions {
    /// `regenerated`, or the folder of the published files.
    source: String,
    seed: Option<u64>,
    sets: Vec<CorruptedReport>,
    averages: Vec<CorruptedAverage>,
}

#[derive(Serialize)]
struct Interpolation {
    members: [usize; 2],
    points: Vec<Point>,
}

pub fn run(args: EvalArgs, out: &mut impl Write) -> Result<ExitCode> {
    let trained = open(&args.run)?;
    if let Some(path) = &args.csv {
        let folder = |path: &Path| path.canonicalize().ok();
        let beside = path
            .parent()
            .and_then(folder)
            .is_some_and(|into| Some(into) == folder(&folder_of(&args)));
        ensure!(
            !beside || path.extension().is_some_and(|extension| extension == "csv"),
            "--csv {}: the evaluation itself is kept there; a name that ends in .csv is none of its own",
            path.display()
        );
        check_writable(path)
            .with_context(|| format!("--csv {}: choose another file", path.display()))?;
    }
    let device = device::for_run(&args.on.device, args.on.threads, &trained)?;
    let answer = on_device!(device, |device| evaluate(&device, &args, &trained))?;
    if let Some(path) = &args.csv {
        write_whole(path, csv::lines(&answer).as_bytes())
            .with_context(|| format!("--csv {}", path.display()))?;
    }
    match args.on.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&answer)?)?,
        false => {
            write!(out, "{}", text::table(&answer))?;
            if args.out.is_none() {
                write!(out, "{}", stale_report(&args.run))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Where an evaluation is kept.
fn folder_of(args: &EvalArgs) -> PathBuf {
    args.out.clone().unwrap_or_else(|| args.run.join("evaluation"))
}

/// A report that was written before what was just measured.
pub fn stale_report(run: &Path) -> String {
    match run.join("report.html").exists() {
        true => {
            format!("\nnext       swn report {0}    with this in {0}/report.html\n", run.display())
        }
        false => String::new(),
    }
}

/// A run's newest checkpoint; what is odd about it goes to the error stream.
pub fn open(run: &Path) -> Result<Trained> {
    let trained = Trained::open(run)?;
    trained.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    Ok(trained)
}

/// A data set that the members were not trained on but can be asked about.
fn other_data(name: &str, trained: &Trained) -> Result<Dataset> {
    let data =
        Dataset::open(name, &standard_folder()?).with_context(|| format!("--data {name}"))?;
    let (shape, classes) = (trained.resolved.data.shape, trained.class_names()?);
    ensure!(
        data.shape == shape && data.classes == classes,
        "--data {name}: its images or classes are not those of {}, which the run was trained on",
        trained.resolved.data.name
    );
    Ok(data)
}

/// The images that were asked for.
pub fn images(
    trained: &Trained,
    data: &Dataset,
    held_out: bool,
    first: Option<usize>,
) -> Result<Images> {
    note_disk(data);
    let mut chosen = match held_out {
        false => data.test.clone(),
        true => {
            let count = trained.resolved.data.validation;
            ensure!(count > 0, "--held-out: the run held no images out");
            drawn(trained, data, count)?
        }
    };
    if let Some(first) = first {
        ensure!(
            (1..=chosen.len()).contains(&first),
            "--images {first}: choose between 1 and {}",
            chosen.len()
        );
        let len = chosen.pixels.len() / chosen.len();
        chosen.pixels = chosen.pixels[..first * len].to_vec().into();
        chosen.labels.truncate(first);
    }
    Ok(chosen)
}

/// Training images as they are held out: as many of every class. Fewer than a run holds out are some of those.
pub fn drawn(trained: &Trained, data: &Dataset, count: usize) -> Result<Images> {
    let (labels, seed) = (&data.train.labels, trained.resolved.data.split_seed);
    let split = ValidationSplit::hold_out(labels, data.classes.len(), count, seed)?;
    let each = split.validation.iter().map(|&image| image as usize);
    let mut pixels = Vec::with_capacity(split.validation.len() * data.image_len());
    each.clone().for_each(|image| pixels.extend_from_slice(data.train.image(image)));
    Ok(Images { pixels: pixels.into(), labels: each.map(|image| labels[image]).collect() })
}

/// Sets that do not fit into memory are not verified when they are opened.
pub fn note_disk(data: &Dataset) {
    if data.on_disk().is_some() {
        eprintln!(
            "note: images are read from the disk as they are; whole? 'swn data verify {}'",
            data.name
        );
    }
}

pub(super) fn evaluate<D: Device>(
    device: &D,
    args: &EvalArgs,
    trained: &Trained,
) -> Result<Answer> {
    let outputs = Outputs::of(&trained.plan);
    let subsets = outputs.subsets()?;
    ensure!(args.batch > 0, "--batch 0: at least one image");
    let making = corruptions::prepare(args, trained)?;
    let line = line(args, trained)?;
    let data = match &args.data {
        None => trained.dataset(&standard_folder()?)?,
        Some(name) => other_data(name, trained)?,
    };
    let images = images(trained, &data, args.held_out, args.images)?;
    let part = match &args.data {
        None if args.held_out => "held-out",
        None => "test",
        Some(name) => name.as_str(),
    };
    let folder = folder_of(args);
    let unwritable = || format!("--out {}: choose another folder", folder.display());
    let path = folder.join(format!("{part}.json"));
    fs::create_dir_all(&folder).and_then(|()| check_writable(&path)).with_context(unwritable)?;
    let normalization = trained.normalization()?;
    let mut networks = trained.networks(device, args.batch.min(images.len()))?;
    let begin = Instant::now();
    let mut predictions = networks.predict(&images, &normalization, |_| ())?;
    let pass_seconds = begin.elapsed().as_secs_f64();
    let about = [
        ("run", trained.resolved.name.clone()),
        ("checkpoint", trained.stamp.number.to_string()),
        ("digest", trained.stamp.digest.clone()),
        ("data", format!("{} {part}", trained.resolved.data.name)),
        ("members", outputs.names().join(",")),
    ];
    predictions.about = about.map(|(key, value)| (key.to_owned(), value)).into();
    let begin = Instant::now();
    let report = SetReport::new(&predictions, &subsets);
    let subsets_seconds = begin.elapsed().as_secs_f64();
    let by_class = if args.classes { classes(&predictions, &data.classes) } else { vec![] };
    predictions.save(&folder.join(format!("{part}.safetensors"))).with_context(unwritable)?;
    let small =
        predictions.to_classes().save(&folder.join(format!("{part}.classes.safetensors.gz")));
    small.with_context(unwritable)?;
    let corruptions = match making {
        Some(making) => {
            Some(making.evaluate(&mut networks, &subsets, &images, &normalization, &folder)?)
        }
        None => None,
    };
    let interpolation = match line {
        Some(ends) => Some(interpolate(device, &networks, ends, &images, args.batch, trained)?),
        None => None,
    };
    let answer = Answer {
        run: args.run.clone(),
        checkpoint: trained.stamp.number,
        digest: trained.stamp.digest.clone(),
        data: trained.resolved.data.name.clone(),
        part: part.to_owned(),
        members: outputs.names().to_vec(),
        exits: outputs.nested(),
        report,
        by_class,
        corruptions,
        interpolation,
        pass_seconds,
        subsets_seconds,
    };
    let figures = serde_json::to_string_pretty(&answer)? + "\n";
    write_whole(&path, figures.as_bytes()).with_context(unwritable)?;
    Ok(answer)
}

/// The hardest first; those without images are left out.
fn classes(predictions: &Predictions, names: &[String]) -> Vec<Class> {
    let said = predictions.classes_of(Subset::all(predictions.outputs()));
    let mut scores = by_class(names.len(), predictions.labels(), &said);
    scores.retain(|score| score.images > 0);
    scores.sort_by(|a, b| a.top1().partial_cmp(&b.top1()).expect("shares are numbers"));
    let named = |score: ClassScore| Class {
        class: names[score.class].clone(),
        images: score.images,
        correct: score.correct,
        taken_for: score.taken_for.map(|(other, count)| (names[other].clone(), count)),
    };
    scores.into_iter().map(named).collect()
}

fn line(args: &EvalArgs, trained: &Trained) -> Result<Option<[usize; 2]>> {
    let members = &trained.plan.members;
    match args.interpolate[..] {
        [] => Ok(None),
        [a, b] => {
            for member in [a, b] {
                trained.member(member).with_context(|| format!("--interpolate {a},{b}"))?;
            }
            ensure!(a != b, "--interpolate {a},{b}: from a member to itself there is no way to go");
            let (from, to) = (&members[a].architecture, &members[b].architecture);
            ensure!(from == to, "--interpolate {a},{b}: {from} and {to} have no line between them");
            Ok(Some([a, b]))
        }
        _ => anyhow::bail!("--interpolate: two members, such as 0,1"),
    }
}

fn interpolate<D: Device>(
    device: &D,
    networks: &Networks<D>,
    [a, b]: [usize; 2],
    images: &Images,
    batch: usize,
    trained: &Trained,
) -> Result<Interpolation> {
    let architecture = trained.plan.members[a].build()?;
    let (from, to) = (networks.state_dict(MemberId(a))?, networks.state_dict(MemberId(b))?);
    let line = Line { architecture: &architecture, from: &from, to: &to };
    let points = line.evaluate(device, images, &trained.normalization()?, batch, POINTS)?;
    Ok(Interpolation { members: [a, b], points })
}
