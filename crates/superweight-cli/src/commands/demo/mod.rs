//! `swn demo`, and `swn` alone: the whole method on the images that come with the program, told as it happens.
//!
//! ```text
//! plan ─► search ─► train, refine ─► as many numbers in a plain network ─► who is better, and how fast? ─► report
//! ```
//!
//! Two ordinary runs of two ordinary recipes: whatever is shown here can be had again with `swn train`.

mod story;
mod verdict;

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

use self::story::{Chapter, Story};
use self::verdict::Verdict;
use super::device::{self, on_device};
use super::train::screen::Screen;
use crate::args::DemoArgs;
use crate::duration;
use crate::signals::{INTERRUPTED, watched_limits};

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
    let where_ = device.describe();
    on_device!(device, |device| demo(&device, &where_, &args, out))
}

fn demo<D: Device>(
    device: &D,
    where_: &str,
    args: &DemoArgs,
    out: &mut impl Write,
) -> Result<ExitCode> {
    let begin = Instant::now();
    let limits = watched_limits()?;
    let [shared, plain] = [request(&SHARED, args)?, request(&PLAIN, args)?];
    if !args.on.json {
        write!(out, "{}", story::opening(&shared.resolved, &plain.resolved))?;
        out.flush()?;
    }
    let mut runs = vec![];
    for (request, chapter) in [(shared, Chapter::Plan), (plain, Chapter::Plain)] {
        let (run, stopped) = train(device, request, chapter, args, &limits, out)?;
        match stopped {
            Stopped::Finished => runs.push(run),
            Stopped::Diverged { what } => bail!("training has diverged: {what}"),
            _ => {
                writeln!(
                    io::stderr(),
                    "stopped    'swn train --resume {}' goes on",
                    run.display()
                )?;
                return Ok(ExitCode::from(INTERRUPTED));
            }
        }
    }
    let [shared, plain] = [&*runs[0], &*runs[1]];
    if !args.on.json {
        writeln!(out, "\n{}", Chapter::Use.line())?;
        out.flush()?;
    }
    let verdict = Verdict::new(device, where_, args, [shared, plain])?;
    let report = report::write(shared)?;
    match args.on.json {
        true => writeln!(out, "{:#}", verdict.to_json())?,
        false => {
            let time = duration::show(begin.elapsed());
            write!(
                out,
                "{}\n{}",
                verdict.to_text(),
                story::ending([shared, plain], &report, &time)
            )?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn request(embedded: &Embedded, args: &DemoArgs) -> Result<Request> {
    let mut set = vec![format!("seed={}", args.seed)];
    set.extend(args.epochs.map(|epochs| format!("train.epochs={epochs}")));
    let recipe = Recipe::parse(embedded.file, embedded.text, &set)?;
    let resolved = recipe.resolve()?;
    let data = Arc::new(resolved.data.open(&standard_folder()?)?);
    let (recipe, runs) = (recipe.as_asked(), args.runs.clone());
    Ok(Request { resolved, recipe, data, runs, existing: Existing::NextName })
}

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
    let mut story = Story::new(screen, chapter);
    let outcome = session.run(limits, &mut story)?;
    story.end();
    Ok((session.folder().to_owned(), outcome.stopped))
}
