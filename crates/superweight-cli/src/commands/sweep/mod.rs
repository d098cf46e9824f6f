//! `swn sweep`: trains a grid of settings, one run folder each, and prints a table.
//!
//! The sweep has no file of its own: a run's folder records how far the run is. So the same command
//! continues a sweep that was stopped, and a run can be evaluated, resumed or removed like any
//! other. With `--from` every run is a branch of one run.

mod grid;
mod row;

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use superweight::data::standard_folder;
use superweight::engine::Device;
use superweight::plan::number::with_commas;
use superweight::recipe::{PLAN, Precision, Recipe, Resolved};
use superweight::run::Invocation;
use superweight::run::{Existing, load_checkpoint};
use superweight::train::{Branch, Limits, Session, Stopped};

use self::grid::{Axis, Point, points};
use self::row::Row;
use super::device::{self, on_device};
use super::train::begin;
use crate::args::SweepArgs;
use crate::ui::screen::Screen;
use crate::ui::signals::{INTERRUPTED, watched_limits};
use crate::ui::table;

/// One combination of settings, checked.
struct Job {
    point: Point,
    /// The combination and the run's name as overrides of the recipe.
    set: Vec<String>,
    recipe: Recipe,
    resolved: Resolved,
    run: PathBuf,
}

impl Job {
    /// The branch of another run that trains this combination.
    fn branch<'a>(&'a self, from: &'a Path, runs: &'a Path) -> Branch<'a> {
        Branch { from, set: &self.set, runs, existing: Existing::Refuse }
    }
}

pub fn run(args: SweepArgs, out: &mut impl Write) -> Result<ExitCode> {
    let axes = args.set.iter().map(|typed| Axis::parse(typed)).collect::<Result<Vec<_>>>()?;
    let wanted = device::parse(&args.on.device)?;
    let (folder, jobs) = jobs(&args, &axes)?;
    let precision = jobs.first().map_or(Precision::Auto, |job| job.resolved.train.precision);
    if jobs.iter().any(|job| job.resolved.train.precision != precision) {
        bail!("--set train.precision: a sweep has one precision; start a sweep for each");
    }
    // Some of the runs may continue from a checkpoint.
    let device = device::for_training(wanted, args.on.threads, precision, true)?;
    let invocation = device.invocation();
    on_device!(device, |device| train_all(&device, &args, &axes, &folder, &jobs, &invocation, out))
}

fn train_all<D: Device>(
    device: &D,
    args: &SweepArgs,
    axes: &[Axis],
    folder: &Path,
    jobs: &[Job],
    invocation: &Invocation,
    out: &mut impl Write,
) -> Result<ExitCode> {
    let limits = watched_limits()?;
    for (n, job) in jobs.iter().enumerate() {
        let name = job.point.label(axes);
        if job.run.exists() && Row::read(&job.run)?.finished() {
            print(args, out, &format!("{}/{}  {name}: finished already", n + 1, jobs.len()))?;
            continue;
        }
        print(args, out, &format!("{}/{}  {name}", n + 1, jobs.len()))?;
        let stopped = train(device, args, job, folder, &limits, invocation, out)
            .with_context(|| name.clone())?;
        match stopped {
            Stopped::Interrupted => {
                print(args, out, "stopped    the same command continues the sweep")?;
                return Ok(ExitCode::from(INTERRUPTED));
            }
            Stopped::Diverged { what } => print(args, out, &format!("diverged   {what}"))?,
            _ => {}
        }
    }
    let rows = jobs.iter().map(|job| Row::read(&job.run)).collect::<Result<Vec<_>>>()?;
    match args.on.json {
        true => writeln!(out, "{:#}", to_json(jobs, &rows))?,
        false => {
            write!(out, "\n{}\nruns       {}\n", to_text(axes, jobs, &rows), folder.display())?
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a line unless JSON is requested.
fn print(args: &SweepArgs, out: &mut impl Write, line: &str) -> io::Result<()> {
    if args.on.json { Ok(()) } else { writeln!(out, "{line}").and_then(|()| out.flush()) }
}

/// Lists all combinations. Each must resolve and have a plan, and an existing folder must have the
/// same recipe; this is checked before anything is trained.
fn jobs(args: &SweepArgs, axes: &[Axis]) -> Result<(PathBuf, Vec<Job>)> {
    let first = points(axes)?;
    let file = match (&args.recipe, &args.from) {
        (Some(recipe), _) => recipe.clone(),
        (None, Some(run)) => {
            load_checkpoint(run).context("--from")?;
            run.join("resolved.toml")
        }
        (None, None) => unreachable!("clap requires a recipe if there is no run"),
    };
    let plain = Recipe::load(&file, &first[0].overrides())?;
    let default = format!("{}-sweep", plain.resolve()?.name);
    let name = args.name.clone().unwrap_or(default);
    let folder = args.runs.join(name);
    let (mut jobs, mut unused_keys): (Vec<Job>, BTreeSet<String>) = Default::default();
    for point in first {
        let name = point.name(axes);
        let mut set = point.overrides();
        set.push(format!("name={name:?}"));
        let recipe = plain.with(&set)?;
        let resolved = recipe.resolve().with_context(|| name.clone())?;
        resolved.first_plan().with_context(|| name.clone())?;
        let run = folder.join(&name);
        if jobs.iter().any(|job| job.run == run) {
            bail!("two combinations would have the run {name}: leave one out");
        }
        check_same(&run, &resolved)?;
        unused_keys.extend(recipe.unused_keys(&resolved));
        jobs.push(Job { point, set, recipe, resolved, run });
    }
    if let Some(from) = &args.from {
        let old = Recipe::load(&file, &[] as &[&str])?.resolve()?;
        let data = old.data.open(&standard_folder()?)?;
        for job in jobs.iter().filter(|job| !job.run.exists()) {
            let checked = job.branch(from, &folder).check(&data);
            checked.with_context(|| format!("--from: {}", job.point.label(axes)))?;
        }
    }
    unused_keys.iter().for_each(|unused_keys| eprintln!("warning: {unused_keys}"));
    Ok((folder, jobs))
}

/// Refuses an existing folder whose run has another recipe or plan.
fn check_same(run: &Path, resolved: &Resolved) -> Result<()> {
    let file = run.join("resolved.toml");
    if !run.exists() {
        return Ok(());
    }
    let text = std::fs::read_to_string(&file).with_context(|| {
        format!("{} is not a run: remove it, or choose another --name", run.display())
    })?;
    let another = |what: &str| {
        anyhow!(
            "{} has a run of another {what}: remove it, or choose another --name",
            run.display()
        )
    };
    if text != resolved.kept().to_toml() {
        return Err(another("recipe"));
    }
    let kept = || std::fs::read_to_string(run.join(PLAN)).ok();
    if resolved.plan.file.is_some() && kept() != Some(resolved.first_plan()?.to_json()) {
        return Err(another("plan"));
    }
    Ok(())
}

/// Trains one combination, from the beginning or from its newest checkpoint.
fn train<D: Device>(
    device: &D,
    args: &SweepArgs,
    job: &Job,
    folder: &Path,
    limits: &Limits,
    invocation: &Invocation,
    out: &mut impl Write,
) -> Result<Stopped> {
    let mut session = match (job.run.exists(), &args.from) {
        (true, _) => Session::resume(device, &job.run, &standard_folder()?)?,
        (false, Some(from)) => {
            Session::branch(device, job.branch(from, folder), &standard_folder()?)?
        }
        (false, None) => {
            begin(device, &job.recipe, job.resolved.clone(), folder, Existing::Refuse)?
        }
    };
    invocation.note(session.folder())?;
    let mut screen =
        Screen::new(if args.on.json { None } else { Some(out) }, io::stderr().is_terminal());
    let outcome = session.run(limits, &mut screen)?;
    screen.clear();
    Ok(outcome.stopped)
}

fn to_text(axes: &[Axis], jobs: &[Job], rows: &[Row]) -> String {
    let percent =
        |share: Option<f64>| share.map_or("–".to_owned(), |share| format!("{share:.2}%"));
    let row = |(job, row): (&Job, &Row)| {
        let counts = row
            .shape()
            .map_or(["–".to_owned(), "–".to_owned(), "–".to_owned()], |s| s.map(with_commas));
        let mut cells = vec![job.point.label(axes)];
        cells.extend(counts);
        cells.push(row.loss.map_or("–".to_owned(), |loss| format!("{loss:.4}")));
        cells.extend([percent(row.validation), percent(row.test), row.state.clone()]);
        cells
    };
    let rows: Vec<_> = jobs.iter().zip(rows).map(row).collect();
    table::render(
        &["", "clusters", "groups", "parameters", "train loss", "validation", "test", ""],
        &rows,
    )
}

fn to_json(jobs: &[Job], rows: &[Row]) -> Value {
    let row = |(job, row): (&Job, &Row)| {
        let set: serde_json::Map<_, _> =
            job.point.0.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let shape = row.shape();
        json!({
            "run": job.run,
            "set": set,
            "seed": job.resolved.seed,
            "state": row.state,
            "clusters": shape.map(|shape| shape[0]),
            "groups": shape.map(|shape| shape[1]),
            "parameters": shape.map(|shape| shape[2]),
            "loss": row.loss,
            "validation": row.validation,
            "test": row.test,
        })
    };
    jobs.iter().zip(rows).map(row).collect()
}
