//! `swn predict`: pictures in, classes out, within a deadline where there is one.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use superweight::infer::anytime::{PROFILE, Predictor, Profile, SystemClock};
use superweight::data::Picture;
use superweight::engine::Device;
use superweight::model::Subset;
use superweight::probability::softmax;
use superweight::infer::{Networks, Trained, normalize};
use superweight::model::{OutputId, Outputs};

use super::device::{self, on_device};
use super::eval::open;
use crate::args::PredictArgs;

#[derive(Serialize)]
struct Said {
    image: String,
    /// Whether these are exits of one network.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    exits: bool,
    members: Subset,
    /// Those that were to run.
    chosen: Subset,
    classes: Vec<Class>,
    used_ms: f64,
    missed: bool,
}

#[derive(Serialize)]
struct Class {
    class: String,
    probability: f64,
}

pub fn run(args: PredictArgs, out: &mut impl Write) -> Result<ExitCode> {
    ensure!(args.top > 0, "--top 0: name at least one class");
    let deadline = args.deadline.as_deref().map(parse).transpose().context("--deadline")?;
    let trained = open(&args.run)?;
    let profile = match deadline {
        Some(_) => Some(profile(&args, &trained)?),
        None => None,
    };
    let shape = trained.resolved.data.shape;
    let normalization = trained.normalization()?;
    let mut inputs = vec![];
    for path in &args.pictures {
        ensure!(
            !path.is_dir(),
            "{} is a folder: give the pictures in it, such as {}",
            path.display(),
            path.join("*.jpg").display()
        );
        let mut input = vec![];
        normalize(&Picture::open(path)?.fit(shape), &normalization, &mut input);
        inputs.push((path.as_path(), input));
    }
    let outputs = Outputs::of_plan(&trained.plan);
    let device = device::for_run(&args.on.device, args.on.threads, &trained)?;
    let said = on_device!(device, |device| {
        match deadline.zip(profile) {
            Some((deadline, profile)) => {
                let networks = trained.networks_by_exit(&device, 1)?;
                within(networks, profile, deadline, &inputs, &args, &trained)?
            }
            None => at_leisure(trained.networks(&device, 1)?, &inputs, &args, &trained)?,
        }
    });
    if args.on.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&said)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for said in &said {
        let classes: Vec<_> = said
            .classes
            .iter()
            .map(|c| format!("{} {:.1}%", c.class, 100.0 * c.probability))
            .collect();
        let cut = if said.members == said.chosen { "" } else { ", cut short" };
        let late = if said.missed { ", too late" } else { "" };
        let (image, classes, members) =
            (&said.image, classes.join(", "), outputs.brief(said.members));
        let who = if said.members.len() == 1 { outputs.word() } else { outputs.words() };
        writeln!(out, "{image}: {classes}  ({who} {members}, {:.3} ms{cut}{late})", said.used_ms)?;
    }
    if deadline.is_some() {
        let missed = said.iter().filter(|said| said.missed).count();
        writeln!(out, "{missed} of {} deadlines missed", said.len())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The profile, if it is of this checkpoint.
fn profile(args: &PredictArgs, trained: &Trained) -> Result<Profile> {
    let path = args.profile.clone().unwrap_or_else(|| args.run.join(PROFILE));
    let profile = Profile::load(&path)?;
    let run = args.run.display();
    if let Some(what) = profile.contradiction(&Outputs::of_plan(&trained.plan), &trained.stamp) {
        bail!("{}: {what}; 'swn anytime {run}' makes it anew", path.display());
    }
    ensure!(
        profile.batch_size == 1,
        "{} is of {} images a call: 'swn anytime {run} --batch 1' makes it anew",
        path.display(),
        profile.batch_size
    );
    Ok(profile)
}

fn within<D: Device>(
    networks: Networks<D>,
    profile: Profile,
    deadline: Duration,
    inputs: &[(&Path, Vec<f32>)],
    args: &PredictArgs,
    trained: &Trained,
) -> Result<Vec<Said>> {
    let mut networks = networks;
    // The first run of a member touches its memory; a deadline is about the others.
    for output in (0..networks.outputs().count()).map(OutputId) {
        networks.run(output)?;
    }
    let (classes, outputs) = (networks.classes(), networks.outputs().clone());
    let mut predictor = Predictor::new(networks, SystemClock::default(), profile, classes)?;
    let mut said = vec![];
    for (path, input) in inputs {
        let answer = predictor.predict(input, deadline).context("--deadline")?;
        said.push(Said {
            image: path.display().to_string(),
            exits: outputs.nested(),
            members: answer.subset,
            chosen: answer.chosen,
            classes: top(&answer.probabilities, args.top, trained)?,
            used_ms: answer.used.as_secs_f64() * 1e3,
            missed: answer.missed,
        });
    }
    Ok(said)
}

fn at_leisure<D: Device>(
    mut networks: Networks<D>,
    inputs: &[(&Path, Vec<f32>)],
    args: &PredictArgs,
    trained: &Trained,
) -> Result<Vec<Said>> {
    let mut said = vec![];
    let outputs = networks.outputs().clone();
    let count = outputs.count();
    for (path, input) in inputs {
        let begin = Instant::now();
        networks.set_images(input)?;
        let (mut sum, mut one) = (vec![0.0; networks.classes()], vec![0.0; networks.classes()]);
        for output in (0..count).map(OutputId) {
            softmax(&networks.run(output)?, &mut one);
            sum.iter_mut().zip(&one).for_each(|(sum, p)| *sum += p / count as f64);
        }
        let all = Subset::all(count);
        said.push(Said {
            image: path.display().to_string(),
            exits: outputs.nested(),
            members: all,
            chosen: all,
            classes: top(&sum, args.top, trained)?,
            used_ms: begin.elapsed().as_secs_f64() * 1e3,
            missed: false,
        });
    }
    Ok(said)
}

fn top(probabilities: &[f64], count: usize, trained: &Trained) -> Result<Vec<Class>> {
    let names = trained.class_names()?;
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&a, &b| probabilities[b].total_cmp(&probabilities[a]));
    let class = |&i: &usize| Class { class: names[i].clone(), probability: probabilities[i] };
    Ok(order.iter().take(count).map(class).collect())
}

/// `5ms`, `800us`, `1s`, `0.5ms`.
fn parse(text: &str) -> Result<Duration> {
    let wrong = || format!("'{text}' is not a time: write 5ms, 800us or 1s");
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let Some((number, unit)) =
        units.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, size)))
    else {
        bail!(wrong())
    };
    let Ok(number) = number.parse::<f64>() else { bail!(wrong()) };
    let seconds = number * unit;
    ensure!(seconds > 0.0, "'{text}': nothing can be answered in no time");
    ensure!(seconds <= 3600.0, "'{text}' is longer than an hour");
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_read() {
        for (text, micros) in [("5ms", 5000), ("800us", 800), ("1s", 1_000_000), ("0.5ms", 500)] {
            assert_eq!(parse(text).unwrap(), Duration::from_micros(micros), "{text}");
        }
        for text in ["", "5", "ms", "0ms", "-1ms", "NaNms", "infs", "9h", "1e9s"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
