//! `swn search`: the search of a run by itself, or its decision again from the statistics that the
//! run has kept.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use superweight::engine::Device;
use superweight::fs::write_whole;
use superweight::plan::number::with_commas;
use superweight::plan::{LayerId, SharingPlan};
use superweight::recipe::{Recipe, Resolved};
use superweight::run::Invocation;
use superweight::search::{Decision, Replay, Statistics, Threshold, groups, replay};
use superweight::train::{Limits, Stopped};

use super::check_writable;
use super::device::{self, on_device};
use super::plan::kernels;
use super::train::{Start, existing, is_finished};
use crate::args::SearchArgs;
use crate::ui::screen::Screen;
use crate::ui::signals::{INTERRUPTED, watched_limits};
use crate::ui::{table, typed};

/// Width of the layers' names in a row of the table.
const NAMES: usize = 66;

pub fn run(args: SearchArgs, out: &mut impl Write) -> Result<ExitCode> {
    for (flag, value) in [("--tau", args.tau), ("--beta", args.beta)] {
        let similarity = value.is_none_or(|value| (-1.0..=1.0).contains(&value));
        ensure!(
            similarity,
            "{flag} {}: similarities are between -1 and 1",
            value.unwrap_or_default()
        );
    }
    for (flag, key, value) in
        [("--tau", "search.tau", args.tau), ("--beta", "refine.beta", args.beta)]
    {
        if let Some(value) = value.filter(|_| args.replay.is_none()) {
            bail!("{flag} needs --replay RUN; for a new search write --set {key}={value}");
        }
    }
    let with = Replay { tau: args.tau, beta: args.beta };
    if let Some(run) = &args.replay {
        let decision = decide(run, with).with_context(|| format!("--replay {}", run.display()))?;
        return print(&args, &decision, run, out);
    }
    if let Some(path) = &args.out {
        check_writable(path)
            .with_context(|| format!("--out {}: choose another file", path.display()))?;
    }
    if let Some(run) = args.resume.as_ref().filter(|run| is_finished(run)) {
        bail!("{}: there is no search left to do (finished)", run.display());
    }
    let wanted = device::parse(&args.on.device)?;
    let mut set = args.set.clone();
    set.extend(args.name.as_ref().map(|name| format!("name={name:?}")));
    let start = Start::of(&args.resume, &args.recipe, &set)?;
    if let Start::Recipe(recipe) = &start {
        check_searches(&recipe.1)?;
    }
    let device =
        device::for_training(wanted, args.on.threads, start.precision(), args.resume.is_some())?;
    let invocation = device.invocation();
    on_device!(device, |device| search(&device, &args, start, &invocation, out))
}

fn search<D: Device>(
    device: &D,
    args: &SearchArgs,
    start: Start,
    invocation: &Invocation,
    out: &mut impl Write,
) -> Result<ExitCode> {
    let limits = Limits { search_only: true, ..watched_limits()? };
    let mut session =
        start.session(device, &args.runs, existing(args.replace, args.name.is_some()))?;
    invocation.note(session.folder())?;
    let mut screen =
        Screen::new(if args.on.json { None } else { Some(&mut *out) }, io::stderr().is_terminal());
    let outcome = session.run(&limits, &mut screen)?;
    screen.clear();
    let run = session.folder().to_owned();
    drop(session);
    match outcome.stopped {
        Stopped::Searched => print(args, &decide(&run, Replay::default())?, &run, out),
        Stopped::Interrupted => {
            let resume = typed(&format!("search --resume {}", run.display()));
            writeln!(out, "stopped    '{resume}' continues")?;
            Ok(ExitCode::from(INTERRUPTED))
        }
        Stopped::Diverged { what } => {
            bail!(
                "the search has diverged: {what}; try a lower learning rate ('--set search.lr=…')"
            )
        }
        stopped => bail!("{}: there is no search left to do ({})", run.display(), stopped.word()),
    }
}

/// Refuses a recipe without a search, before a folder is made.
fn check_searches(resolved: &Resolved) -> Result<()> {
    if let Some(file) = &resolved.plan.file {
        let file = file.display();
        bail!(
            "plan.file {file} is given as the plan: 'swn train' trains it, 'swn plan --show {file}' shows it"
        );
    }
    if resolved.search.is_none() {
        let strategy = resolved.strategy.word();
        bail!(
            "strategy {strategy} has no search: 'swn train' trains it, 'swn plan' shows its clusters"
        );
    }
    Ok(())
}

/// Decides from the statistics of a run.
fn decide(run: &Path, with: Replay) -> Result<Decision> {
    let file = run.join("resolved.toml");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("{} is not a run folder: {}", run.display(), file.display()))?;
    let resolved = Recipe::parse(&file.display().to_string(), &text, &[] as &[&str])?.resolve()?;
    check_searches(&resolved)?;
    let file = run.join("statistics.safetensors");
    let statistics = match file.exists() {
        true => Statistics::load(&file).with_context(|| file.display().to_string())?,
        false => Statistics::default(),
    };
    Ok(replay(&resolved, &statistics, with)?.decision().clone())
}

/// Writes the plan to `--out` and prints the decision.
fn print(
    args: &SearchArgs,
    decision: &Decision,
    run: &Path,
    out: &mut impl Write,
) -> Result<ExitCode> {
    if let Some(path) = &args.out {
        let written = write_whole(path, decision.plan.to_json().as_bytes());
        written.with_context(|| format!("--out {}: choose another file", path.display()))?;
    }
    match args.on.json {
        true => writeln!(out, "{:#}", to_json(decision, run))?,
        false => write!(out, "{}", to_text(decision, args, run))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A table with a row per cluster.
pub(super) fn cluster_table(plan: &SharingPlan) -> String {
    let templates = |cluster: usize| -> usize {
        let of = plan.template_sets.iter().filter(|set| set.cluster.0 == cluster);
        of.map(|set| set.templates).sum()
    };
    let row = |(i, layers): (usize, &Vec<LayerId>)| {
        vec![
            names(plan, layers),
            layers.len().to_string(),
            with_commas(templates(i) as u64),
            kernels(&layers.iter().map(|&id| plan.layer(id)).collect::<Vec<_>>()),
        ]
    };
    let clusters: Vec<_> = plan.clusters.iter().map(|cluster| cluster.layers.clone()).collect();
    let rows: Vec<_> = clusters.iter().enumerate().map(row).collect();
    table::render(&["cluster", "layers", "templates", "kernel"], &rows)
}

fn to_text(decision: &Decision, args: &SearchArgs, run: &Path) -> String {
    let plan = &decision.plan;
    let mut text = cluster_table(plan);
    let Threshold { name, requested, used, relaxed } = &decision.threshold;
    let mut by = format!("{name} = {used}");
    if let Some(reason) = relaxed {
        by += &format!(", relaxed from {requested}: {reason}");
    }
    text += &format!("\nby         {by}\n");
    text += &format!("groups     {} of coefficients\n", with_commas(groups(plan) as u64));
    let budget = plan
        .budget
        .map_or(String::new(), |budget| format!(" of a budget of {}", with_commas(budget)));
    text += &format!("parameters {} trained{budget}\n", with_commas(plan.bill.trained()));
    if let Some(path) = &args.out {
        text += &format!("plan       {}\n", path.display());
    }
    if args.replay.is_none() {
        let run = run.display();
        text += &format!("next       {}\n", typed(&format!("train --resume {run}")));
        // k-means has no threshold to try.
        if *name == "τ" {
            let replay = typed(&format!("search --replay {run} --tau 0.3"));
            text += &format!("           {replay}\n");
        }
    }
    text
}

/// Names of layers, `0/block1.layer.0.conv1 …`: member and layer, as many as fit.
fn names(plan: &SharingPlan, layers: &[LayerId]) -> String {
    let name = |&id: &LayerId| {
        let layer = plan.layer(id);
        format!("{}/{}", layer.member, layer.name.trim_end_matches(".weight"))
    };
    let mut text = String::new();
    for (n, name) in layers.iter().map(name).enumerate() {
        if n > 0 && text.len() + name.len() + 3 > NAMES {
            return text + " …";
        }
        text += if n > 0 { " " } else { "" };
        text += &name;
    }
    text
}

fn to_json(decision: &Decision, run: &Path) -> Value {
    let plan = &decision.plan;
    let name = |&id: &LayerId| format!("{}/{}", plan.layer(id).member, plan.layer(id).name);
    let clusters: Vec<Vec<String>> =
        plan.clusters.iter().map(|cluster| cluster.layers.iter().map(name).collect()).collect();
    let by = &decision.threshold;
    let threshold = json!({ "name": by.word(), "requested": by.requested, "used": by.used, "relaxed": by.relaxed });
    json!({
        "run": run,
        "threshold": threshold,
        "clusters": clusters,
        "groups": groups(plan),
        "parameters": plan.bill.trained(),
        "bill": plan.bill,
        "budget": plan.budget,
    })
}
