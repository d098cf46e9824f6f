//! `swn train`: trains a recipe, or continues a run, and prints the outcome.
//!
//! | exit code | outcome |
//! |---|---|
//! | 0 | finished, or stopped by `--time-limit` or `--until` |
//! | 1 | refused, failed or diverged |
//! | 130 | stopped by Ctrl-C |

mod start;
mod summary;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use superweight::engine::Device;
use superweight::infer::Trained;
use superweight::report;
use superweight::run::{Event, Invocation, OpenRun, StopEvent, stop_of};
use superweight::train::{Limits, Outcome, Position, Stopped};

pub(super) use self::start::{Start, begin, existing};
use super::device::{self, on_device};
use crate::args::TrainArgs;
use crate::ui::duration;
use crate::ui::screen::Screen;
use crate::ui::signals::{INTERRUPTED, watched_limits};

pub fn run(args: TrainArgs, out: &mut impl Write) -> Result<ExitCode> {
    let deadline = match &args.time_limit {
        Some(text) => Some(Instant::now() + duration::parse(text).context("--time-limit")?),
        None => None,
    };
    let wanted = device::parse(&args.on.device)?;
    if let Some(run) = &args.resume
        && is_finished(run)
    {
        return finished(run, args.on.json, out);
    }
    let set = settings(&args)?;
    let start = match &args.from {
        Some(run) => Start::branch(run, set),
        None => Start::of(&args.resume, &args.recipe, &set)?,
    };
    let continues = !matches!(start, Start::Recipe(_));
    let device = device::for_training(wanted, args.on.threads, start.precision(), continues)?;
    let invocation = device.invocation();
    on_device!(device, |device| train(&device, args, start, deadline, &invocation, out))
}

fn train<D: Device>(
    device: &D,
    args: TrainArgs,
    start: Start,
    deadline: Option<Instant>,
    invocation: &Invocation,
    out: &mut impl Write,
) -> Result<ExitCode> {
    let every = Some(args.checkpoint_every);
    let limits =
        Limits { deadline, checkpoint_every: every, until: args.until, ..watched_limits()? };
    let mut session =
        start.session(device, &args.runs, existing(args.replace, args.name.is_some()))?;
    invocation.note(session.folder())?;
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
        Stopped::Interrupted => ExitCode::from(INTERRUPTED),
        Stopped::Diverged { what } => {
            bail!("training has diverged: {what}; {}", summary::advice(&outcome))
        }
        _ => ExitCode::SUCCESS,
    })
}

/// Whether the log of a run ends with its end. A folder without a readable log is not finished:
/// opening it reports why.
pub(super) fn is_finished(run: &Path) -> bool {
    let log = superweight::run::read_log(&run.join("log.jsonl")).unwrap_or_default();
    stop_of(&log).is_some_and(|stop| stop.reason == StopEvent::FINISHED)
}

/// Prints the outcome of a run that is finished already; nothing is trained and no file changes.
fn finished(run: &Path, json: bool, out: &mut impl Write) -> Result<ExitCode> {
    // Reads all files of the run that resuming would read, so that damage is reported here too.
    let flag = || format!("--resume {}", run.display());
    let trained = Trained::open(run).with_context(flag)?;
    trained.class_names().with_context(flag)?;
    let (mut validation, mut test) = (None, None);
    for line in OpenRun::open(run)?.log()? {
        match line.event {
            Event::Epoch(epoch) => validation = epoch.validation.or(validation),
            Event::Eval(eval) => test = eval.test,
            _ => {}
        }
    }
    let position: Position = serde_json::from_value(trained.checkpoint.state.training.clone())?;
    let outcome = Outcome {
        stopped: Stopped::Finished,
        folder: run.to_owned(),
        position,
        next: 0.0,
        kept: position,
        checkpoint: Some(trained.stamp.number),
        validation,
        test,
    };
    match json {
        true => writeln!(out, "{:#}", summary::json(&outcome, &trained.plan))?,
        false => {
            let (epoch, epochs) = (position.epoch, trained.resolved.train.epochs);
            writeln!(
                out,
                "finished   after epoch {epoch} of {epochs}: there is nothing left to train"
            )?;
            write!(out, "{}", summary::text(&outcome, &trained.plan, None))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Settings of the recipe that the flags stand for.
fn settings(args: &TrainArgs) -> Result<Vec<String>> {
    let mut set = args.set.clone();
    if let Some(plan) = &args.plan {
        if let Some(other) = set.iter().find(|set| set.trim_start().starts_with("plan.file")) {
            bail!("--plan {} and --set {other} both name a plan: leave one out", plan.display());
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
