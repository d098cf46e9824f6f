//! `swn demo`, and `swn` without arguments: the whole method on the images that come with the
//! program.
//!
//! ```text
//! plan ─► search ─► train, refine ─► train a plain network ─► compare accuracy and time ─► report
//! ```
//!
//! The demo trains two ordinary recipes: `swn train` gives the same runs.

mod comparison;
mod narration;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use superweight::data::standard_folder;
use superweight::engine::Device;
use superweight::recipe::{Precision, Recipe};
use superweight::report;
use superweight::run::Existing;
use superweight::train::{Limits, Request, Session, Stopped};

use self::comparison::Comparison;
use self::narration::{Chapter, Narration};
use super::device::{self, on_device};
use crate::args::DemoArgs;
use crate::ui::screen::Screen;
use crate::ui::signals::{INTERRUPTED, watched_limits};
use crate::ui::{duration, typed};

/// A recipe that is part of the program.
struct Embedded {
    file: &'static str,
    text: &'static str,
}

const SHARED: Embedded =
    Embedded { file: "recipes/demo.toml", text: include_str!("../../../../../recipes/demo.toml") };
const PLAIN: Embedded = Embedded {
    file: "recipes/demo-baseline.toml",
    text: include_str!("../../../../../recipes/demo-baseline.toml"),
};

pub fn run(args: DemoArgs, out: &mut impl Write) -> Result<ExitCode> {
    let device = device::open(device::parse(&args.on.device)?, args.on.threads, Precision::Auto)?;
    let place = device.describe();
    on_device!(device, |device| demo(&device, &place, &args, out))
}

fn demo<D: Device>(
    device: &D,
    place: &str,
    args: &DemoArgs,
    out: &mut impl Write,
) -> Result<ExitCode> {
    let begin = Instant::now();
    let limits = watched_limits()?;
    let [shared, plain] = [request(&SHARED, args)?, request(&PLAIN, args)?];
    if !args.on.json {
        write!(out, "{}", narration::opening(&shared.resolved, &plain.resolved, args))?;
        out.flush()?;
    }
    let mut runs = vec![];
    for (request, chapter) in [(shared, Chapter::Plan), (plain, Chapter::Compare)] {
        let (run, stopped) = train(device, request, chapter, args, &limits, out)?;
        match stopped {
            Stopped::Finished => runs.push(run),
            Stopped::Diverged { what } => bail!("training has diverged: {what}"),
            _ => {
                let resume = typed(&format!("train --resume {}", run.display()));
                writeln!(io::stderr(), "stopped    '{resume}' continues this run")?;
                return Ok(ExitCode::from(INTERRUPTED));
            }
        }
    }
    let [shared, plain] = [&*runs[0], &*runs[1]];
    if !args.on.json {
        writeln!(out, "\n{}", Chapter::Use.line())?;
        out.flush()?;
    }
    let comparison = Comparison::new(device, place, args, [shared, plain])?;
    let report = report::write(shared)?;
    match args.on.json {
        true => writeln!(out, "{:#}", comparison.to_json())?,
        false => {
            let time = duration::show(begin.elapsed());
            write!(
                out,
                "{}\n{}",
                comparison.to_text(),
                narration::ending([shared, plain], &report, &time)
            )?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The request to train an embedded recipe.
fn request(embedded: &Embedded, args: &DemoArgs) -> Result<Request> {
    let mut set = vec![format!("seed={}", args.seed)];
    set.extend(args.epochs.map(|epochs| format!("train.epochs={epochs}")));
    let recipe = Recipe::parse(embedded.file, embedded.text, &set)?;
    let resolved = recipe.resolve()?;
    let data = Arc::new(resolved.data.open(&standard_folder()?)?);
    let (recipe, runs) = (recipe.as_written(), args.runs.clone());
    Ok(Request { resolved, recipe, data, runs, existing: Existing::NextName })
}

/// Trains one run; returns its folder and why it stopped.
fn train<D: Device>(
    device: &D,
    request: Request,
    chapter: Chapter,
    args: &DemoArgs,
    limits: &Limits,
    out: &mut impl Write,
) -> Result<(PathBuf, Stopped)> {
    let mut session = Session::create(device, request)?;
    let screen =
        Screen::new(if args.on.json { None } else { Some(out) }, io::stderr().is_terminal());
    let mut narration = Narration::new(screen, chapter);
    let outcome = session.run(limits, &mut narration)?;
    narration.end();
    Ok((session.folder().to_owned(), outcome.stopped))
}
