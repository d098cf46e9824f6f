//! `swn train`: from a recipe or a run's folder to a session, from its outcome to a table and an exit code.
//!
//! | exit code | |
//! |---|---|
//! | 0 | finished, or stopped by `--time-limit` or `--until` |
//! | 1 | refused, failed or diverged |
//! | 130 | stopped by Ctrl-C |

pub(super) mod screen;
mod summary;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use superweight::data::standard_folder;
use superweight::engine::Device;
use superweight::recipe::{Precision, Recipe, Resolved};
use superweight::report;
use superweight::report::published::Started;
use superweight::run::{Existing, RunError};
use superweight::train::{Branch, Limits, Request, Session, Stopped, TrainError};

use self::screen::Screen;
use super::device::{self, on_device};
use super::load_recipe;
use crate::args::TrainArgs;
use crate::duration;
use crate::signals::{INTERRUPTED, watched_limits};

pub fn run(args: TrainArgs, out: &mut impl Write) -> Result<ExitCode> {
    let deadline = match &args.time_limit {
        Some(text) => Some(Instant::now() + duration::parse(text).context("--time-limit")?),
        None => None,
    };
    let wanted = device::parse(&args.on.device)?;
    let set = settings(&args)?;
    let start = match &args.from {
        Some(run) => Start::branch(run, set),
        None => Start::of(&args.resume, &args.recipe, &set)?,
    };
    let goes_on = !matches!(start, Start::Recipe(_));
    let device = device::for_training(wanted, args.on.threads, start.precision(), goes_on)?;
    let started = device.started();
    on_device!(device, |device| train(&device, args, start, deadline, &started, out))
}

fn train<D: Device>(
    device: &D,
    args: TrainArgs,
    start: Start,
    deadline: Option<Instant>,
    started: &Started,
    out: &mut impl Write,
) -> Result<ExitCode> {
    let every = Some(args.checkpoint_every);
    let limits =
        Limits { deadline, checkpoint_every: every, until: args.until, ..watched_limits()? };
    let mut session =
        start.session(device, &args.runs, existing(args.replace, args.name.is_some()))?;
    started.note(session.folder())?;
    let mut screen =
        Screen::new(if args.on.json { None } else { Some(&mut *out) }, io::stderr().is_terminal());
    let outcome = session.run(&limits, &mut screen)?;
    screen.clear();
    let report = match outcome.stopped {
        Stopped::Finished => Some(report::write(session.folder())?),
        _ => None,
    };
    match args.on.json {
        true => writeln!(out, "{:#}", summary::json(&outcome, session.plan()))?,
        false => write!(out, "{}", summary::text(&outcome, session.plan(), report.as_deref()))?,
    }
    Ok(match &outcome.stopped {
        Stopped::Finished | Stopped::TimeLimit | Stopped::Searched | Stopped::Until => {
            ExitCode::SUCCESS
        }
        Stopped::Interrupted => ExitCode::from(INTERRUPTED),
        Stopped::Diverged { what } => {
            bail!("training has diverged: {what}; {}", summary::advice(&outcome))
        }
    })
}

/// What a session begins with: a run that is there, its beginning, or a recipe, which is read once (it may be a pipe).
pub(super) enum Start {
    Run(PathBuf),
    Branch(PathBuf, Vec<String>),
    Recipe(Box<(Recipe, Resolved)>),
}

impl Start {
    pub(super) fn of(
        resume: &Option<PathBuf>,
        recipe: &Option<PathBuf>,
        set: &[String],
    ) -> Result<Self> {
        match (resume, recipe) {
            (Some(run), _) => Ok(Self::Run(run.clone())),
            (None, Some(path)) => Ok(Self::Recipe(Box::new(load_recipe(path, set)?))),
            (None, None) => unreachable!("clap asks for a recipe where there is no run"),
        }
    }

    /// What is asked in vain is said; what is wrong, when the folder is opened.
    fn branch(from: &Path, set: Vec<String>) -> Self {
        let _ = load_recipe(&from.join("resolved.toml"), &set);
        Self::Branch(from.to_owned(), set)
    }

    /// What it computes in. A folder that does not say is refused when it is opened, with what is wrong with it.
    pub(super) fn precision(&self) -> Precision {
        let of_run =
            |run: &Path| Recipe::load(&run.join("resolved.toml"), &[] as &[&str])?.resolve();
        match self {
            Self::Run(run) | Self::Branch(run, _) => {
                of_run(run).map_or(Precision::Auto, |resolved| resolved.train.precision)
            }
            Self::Recipe(of) => of.1.train.precision,
        }
    }

    pub(super) fn session<D: Device>(
        self,
        device: &D,
        runs: &Path,
        existing: Existing,
    ) -> Result<Session<D>> {
        match self {
            Self::Run(run) => Session::resume(device, &run, &standard_folder()?)
                .with_context(|| format!("--resume {}", run.display())),
            Self::Branch(from, set) => {
                let branch = Branch { from: &from, set: &set, runs, existing };
                Session::branch(device, branch, &standard_folder()?).map_err(|error| match error {
                    TrainError::Run(RunError::Io { doing: "create", .. }) => not_made(runs, error),
                    error => anyhow::Error::new(error).context("--from"),
                })
            }
            Self::Recipe(of) => begin(device, &of.0, of.1, runs, existing),
        }
    }
}

/// What becomes of a run of the same name: only a name that somebody gave is worth an error.
pub(super) fn existing(replace: bool, named: bool) -> Existing {
    match (replace, named) {
        (true, _) => Existing::Replace,
        (false, true) => Existing::Refuse,
        (false, false) => Existing::NextName,
    }
}

/// Flags that are keys of the recipe, put over it.
fn settings(args: &TrainArgs) -> Result<Vec<String>> {
    let mut set = args.set.clone();
    if let Some(plan) = &args.plan {
        if let Some(other) = set.iter().find(|set| set.trim_start().starts_with("plan.file")) {
            bail!("--plan {} and --set {other}: there is one plan", plan.display());
        }
        let plan =
            std::path::absolute(plan).with_context(|| format!("--plan {}", plan.display()))?;
        set.push(format!("plan.file={:?}", plan.display().to_string()));
    }
    set.extend(args.name.as_ref().map(|name| format!("name={name:?}")));
    set.extend(args.validation.as_ref().map(|images| match images.parse::<u64>() {
        Ok(images) => format!("data.validation={images}"),
        Err(_) => format!("data.validation={images:?}"),
    }));
    Ok(set)
}

/// Where a run's folder cannot be made, the flag that says where.
fn not_made(runs: &Path, error: TrainError) -> anyhow::Error {
    anyhow::Error::new(error).context(format!("--runs {}: choose another folder", runs.display()))
}

/// A new run of a recipe, with its images.
pub(super) fn begin<D: Device>(
    device: &D,
    recipe: &Recipe,
    resolved: Resolved,
    runs: &Path,
    existing: Existing,
) -> Result<Session<D>> {
    let data = Arc::new(resolved.data.open(&standard_folder()?)?);
    let request =
        Request { resolved, recipe: recipe.as_asked(), data, runs: runs.to_owned(), existing };
    Session::create(device, request).map_err(|error| match error {
        TrainError::Run(RunError::Io { .. }) => not_made(runs, error),
        error => error.into(),
    })
}
