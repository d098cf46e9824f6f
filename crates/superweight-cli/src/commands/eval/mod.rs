//! `swn eval`: evaluates the outputs of a run on some images, prints the figures and keeps them.

mod corruptions;
mod csv;
mod text;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use superweight::data::{Images, standard_folder};
use superweight::engine::Device;
use superweight::evaluate::{
    ClassRecord, ClassScore, EvaluationRecord, InterpolationRecord, Predictions, by_class,
};
use superweight::fs::write_whole;
use superweight::infer::{Line, Networks, Trained, evaluate_images};
use superweight::model::Subset;
use superweight::plan::MemberId;

use super::check_writable;
use super::device::{self, on_device};
use super::runs::{images, open, other_data, split};
use crate::args::EvalArgs;
use crate::ui::typed;

/// Points on the line between two members.
const POINTS: usize = 11;

pub fn run(args: EvalArgs, out: &mut impl Write) -> Result<ExitCode> {
    let trained = open(&args.run)?;
    if let Some(path) = &args.csv {
        check_csv(path, &args)?;
    }
    let device = device::for_run(&args.on.device, args.on.threads, &trained)?;
    let record = on_device!(device, |device| evaluate(&device, &args, &trained))?;
    if let Some(path) = &args.csv {
        write_whole(path, csv::lines(&record).as_bytes())
            .with_context(|| format!("--csv {}", path.display()))?;
    }
    match args.on.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&record)?)?,
        false => {
            write!(out, "{}", text::table(&record))?;
            if args.out.is_none() {
                write!(out, "{}", stale_report(&args.run))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses a `--csv` file that cannot be written or that would replace a file of the evaluation.
fn check_csv(path: &Path, args: &EvalArgs) -> Result<()> {
    let folder = |path: &Path| path.canonicalize().ok();
    let beside =
        path.parent().and_then(folder).is_some_and(|into| Some(into) == folder(&folder_of(args)));
    ensure!(
        !beside || path.extension().is_some_and(|extension| extension == "csv"),
        "--csv {}: the files of the evaluation are kept in this folder; choose a name that ends in .csv",
        path.display()
    );
    check_writable(path).with_context(|| format!("--csv {}: choose another file", path.display()))
}

/// Folder that an evaluation is kept in.
fn folder_of(args: &EvalArgs) -> PathBuf {
    args.out.clone().unwrap_or_else(|| args.run.join("evaluation"))
}

/// The line that suggests to write a report again, if the run has one that is now out of date.
pub fn stale_report(run: &Path) -> String {
    match run.join("report.html").exists() {
        true => {
            let again = typed(&format!("report {}", run.display()));
            format!("\nnext       {again}    updates {}/report.html\n", run.display())
        }
        false => String::new(),
    }
}

/// Evaluates a run as requested and keeps record and predictions.
pub(super) fn evaluate<D: Device>(
    device: &D,
    args: &EvalArgs,
    trained: &Trained,
) -> Result<EvaluationRecord> {
    let outputs = trained.outputs();
    let subsets = outputs.subsets()?;
    ensure!(args.batch_size > 0, "--batch-size 0: choose at least one image");
    let corruptions = corruptions::prepare(args, trained)?;
    let line = line(args, trained)?;
    let data = match &args.data {
        None => trained.dataset(&standard_folder()?)?,
        Some(name) => other_data(name, trained)?,
    };
    let images = images(trained, &data, split(args.validation), args.images)?;
    let split = match &args.data {
        None => split(args.validation).name(),
        Some(name) => name.as_str(),
    };
    let folder = folder_of(args);
    let unwritable = || format!("--out {}: choose another folder", folder.display());
    let path = folder.join(format!("{split}.json"));
    fs::create_dir_all(&folder).and_then(|()| check_writable(&path)).with_context(unwritable)?;
    let mut networks = trained.networks(device, args.batch_size.min(images.len()))?;
    let (record, predictions) = evaluate_images(trained, &mut networks, &images, split)?;
    let by_class = if args.classes { classes(&predictions, &data.classes) } else { vec![] };
    predictions.save(&folder.join(format!("{split}.safetensors"))).with_context(unwritable)?;
    let small =
        predictions.to_classes().save(&folder.join(format!("{split}.classes.safetensors.gz")));
    small.with_context(unwritable)?;
    let corruptions = match corruptions {
        Some(request) => Some(request.evaluate(
            &mut networks,
            &subsets,
            &images,
            &trained.normalization()?,
            &folder,
        )?),
        None => None,
    };
    let interpolation = match line {
        Some(ends) => {
            Some(interpolate(device, &networks, ends, &images, args.batch_size, trained)?)
        }
        None => None,
    };
    let record = EvaluationRecord { by_class, corruptions, interpolation, ..record };
    let text = serde_json::to_string_pretty(&record)? + "\n";
    write_whole(&path, text.as_bytes()).with_context(unwritable)?;
    Ok(record)
}

/// Accuracy of all outputs together on each class that has images, the lowest first.
fn classes(predictions: &Predictions, names: &[String]) -> Vec<ClassRecord> {
    let predicted = predictions.classes_of(Subset::all(predictions.outputs()));
    let mut scores = by_class(names.len(), predictions.labels(), &predicted);
    scores.retain(|score| score.images > 0);
    scores.sort_by(|a, b| a.top1().partial_cmp(&b.top1()).expect("shares are numbers"));
    let named = |score: ClassScore| ClassRecord {
        class: names[score.class].clone(),
        images: score.images,
        correct: score.correct,
        taken_for: score.taken_for.map(|(other, count)| (names[other].clone(), count)),
    };
    scores.into_iter().map(named).collect()
}

/// The two members of `--interpolate`, checked.
fn line(args: &EvalArgs, trained: &Trained) -> Result<Option<[usize; 2]>> {
    let members = &trained.plan.members;
    match args.interpolate[..] {
        [] => Ok(None),
        [a, b] => {
            for member in [a, b] {
                trained.member(member).with_context(|| format!("--interpolate {a},{b}"))?;
            }
            ensure!(a != b, "--interpolate {a},{b}: choose two different members");
            let (from, to) = (&members[a].architecture, &members[b].architecture);
            ensure!(
                from == to,
                "--interpolate {a},{b}: {from} and {to} have different weights; choose members of one architecture"
            );
            Ok(Some([a, b]))
        }
        _ => anyhow::bail!("--interpolate: write two members, such as 0,1"),
    }
}

fn interpolate<D: Device>(
    device: &D,
    networks: &Networks<D>,
    [a, b]: [usize; 2],
    images: &Images,
    batch: usize,
    trained: &Trained,
) -> Result<InterpolationRecord> {
    let architecture = trained.plan.members[a].build()?;
    let (from, to) = (networks.state_dict(MemberId(a))?, networks.state_dict(MemberId(b))?);
    let line = Line { architecture: &architecture, from: &from, to: &to };
    let points = line.evaluate(device, images, &trained.normalization()?, batch, POINTS)?;
    Ok(InterpolationRecord { members: [a, b], points })
}
