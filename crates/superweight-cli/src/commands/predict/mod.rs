//! `swn predict`: classifies pictures, within a deadline if one is given.
//!
//! Pictures are decoded one after another, so that a folder of any size fits into memory. A picture
//! that cannot be read does not stop the others.

mod pictures;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use superweight::data::Picture;
use superweight::engine::Device;
use superweight::infer::anytime::{PROFILE, Predictor, Profile, SystemClock};
use superweight::infer::{Networks, Trained};
use superweight::model::{OutputId, Outputs, Subset};
use superweight::probability::{MeanProbabilities, ranking};

use super::device::{self, on_device};
use super::runs::open;
use crate::args::PredictArgs;
use crate::ui::{as_typed, message};

/// What is printed about one picture.
#[derive(Serialize)]
#[serde(untagged)]
enum Entry {
    Classified(Classified),
    Failed { image: String, error: String },
}

/// A classified picture.
#[derive(Serialize)]
struct Classified {
    image: String,
    /// Whether the outputs are exits of one network.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    exits: bool,
    /// Outputs that the prediction is the mean of.
    members: Subset,
    /// Outputs that were chosen to run.
    chosen: Subset,
    /// The most probable classes.
    classes: Vec<Class>,
    used_ms: f64,
    missed: bool,
}

#[derive(Serialize)]
struct Class {
    class: String,
    probability: f64,
}

/// Mean probabilities of one picture, and how they came about.
struct Prediction {
    probabilities: Vec<f64>,
    members: Subset,
    chosen: Subset,
    used: Duration,
    missed: bool,
}

/// Predicts from one normalized picture.
type Predict<'a> = Box<dyn FnMut(&[f32]) -> Result<Prediction> + 'a>;

pub fn run(args: PredictArgs, out: &mut impl Write) -> Result<ExitCode> {
    ensure!(args.top > 0, "--top 0: choose at least one class");
    let deadline = args.deadline.as_deref().map(parse).transpose().context("--deadline")?;
    let trained = open(&args.run)?;
    let deadline = match deadline {
        Some(deadline) => Some((deadline, profile(&args, &trained)?)),
        None => None,
    };
    let pictures = pictures::find(&args.pictures)?;
    let device = device::for_run(&args.on.device, args.on.threads, &trained)?;
    let entries = on_device!(device, |device| {
        let predict = match deadline {
            Some((deadline, profile)) => {
                within(trained.networks_by_exit(&device, 1)?, profile, deadline)?
            }
            None => without_deadline(trained.networks(&device, 1)?),
        };
        classify(predict, pictures, &args, &trained, out)?
    });
    let failed = entries.iter().filter(|entry| matches!(entry, Entry::Failed { .. })).count();
    if args.on.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&entries)?)?;
    } else if args.deadline.is_some() {
        let missed = |entry: &&Entry| matches!(entry, Entry::Classified(one) if one.missed);
        let missed = entries.iter().filter(missed).count();
        writeln!(out, "{missed} of {} deadlines missed", entries.len() - failed)?;
    }
    out.flush()?;
    if failed > 0 && entries.len() > 1 {
        eprintln!("{failed} of {} pictures could not be read", entries.len());
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Classifies every picture, and prints each as soon as it is done unless JSON is requested.
fn classify(
    mut predict: Predict<'_>,
    pictures: Vec<pictures::Found>,
    args: &PredictArgs,
    trained: &Trained,
    out: &mut impl Write,
) -> Result<Vec<Entry>> {
    let (outputs, names) = (trained.outputs(), trained.class_names()?);
    let mut entries = vec![];
    for found in pictures {
        let read = found.and_then(|path| match Picture::open(&path) {
            Ok(picture) => Ok((path, picture)),
            Err(error) => Err((path, message(&error.into()))),
        });
        let entry = match read {
            Ok((path, picture)) => {
                let prediction = predict(&trained.input(&picture)?)?;
                Entry::Classified(classified(&path, prediction, &outputs, &names, args.top))
            }
            Err((path, error)) => Entry::Failed { image: path.display().to_string(), error },
        };
        if !args.on.json {
            match &entry {
                Entry::Classified(one) => writeln!(out, "{}", line(one, &outputs))?,
                Entry::Failed { error, .. } => {
                    out.flush()?;
                    eprintln!("error: {}", as_typed(error));
                }
            }
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn classified(
    path: &Path,
    prediction: Prediction,
    outputs: &Outputs,
    names: &[String],
    top: usize,
) -> Classified {
    let Prediction { probabilities, members, chosen, used, missed } = prediction;
    let class =
        |&class: &usize| Class { class: names[class].clone(), probability: probabilities[class] };
    Classified {
        image: path.display().to_string(),
        exits: outputs.nested(),
        members,
        chosen,
        classes: ranking(&probabilities).iter().take(top).map(class).collect(),
        used_ms: used.as_secs_f64() * 1e3,
        missed,
    }
}

/// `shoe.png: sneaker 91.0%, boot 5.1%  (members 0+1, 2.500 ms)`.
fn line(one: &Classified, outputs: &Outputs) -> String {
    let classes: Vec<_> = one
        .classes
        .iter()
        .map(|class| format!("{} {:.1}%", class.class, 100.0 * class.probability))
        .collect();
    let cut = if one.members == one.chosen { "" } else { ", cut short" };
    let late = if one.missed { ", too late" } else { "" };
    let word = if one.members.len() == 1 { outputs.word() } else { outputs.words() };
    let members = outputs.brief(one.members);
    format!(
        "{}: {}  ({word} {members}, {:.3} ms{cut}{late})",
        one.image,
        classes.join(", "),
        one.used_ms
    )
}

/// Loads the profile and checks that it was measured with this checkpoint, one image at a time.
fn profile(args: &PredictArgs, trained: &Trained) -> Result<Profile> {
    let path: PathBuf = args.profile.clone().unwrap_or_else(|| args.run.join(PROFILE));
    let profile = Profile::load(&path)?;
    let run = args.run.display();
    if let Some(what) = profile.contradiction(&trained.outputs(), &trained.stamp) {
        bail!("{}: {what}; 'swn anytime {run}' measures again", path.display());
    }
    ensure!(
        profile.batch_size == 1,
        "{} was measured with {} images per call: 'swn anytime {run} --batch-size 1' measures again",
        path.display(),
        profile.batch_size
    );
    Ok(profile)
}

/// Predicts with the most accurate subset that the deadline allows.
fn within<'a, D: Device + 'a>(
    mut networks: Networks<D>,
    profile: Profile,
    deadline: Duration,
) -> Result<Predict<'a>> {
    // The first run of a member is slow, since it touches its memory for the first time.
    for output in (0..networks.outputs().count()).map(OutputId) {
        networks.run(output)?;
    }
    let classes = networks.classes();
    let mut predictor = Predictor::new(networks, SystemClock::default(), profile, classes)?;
    Ok(Box::new(move |input| {
        let prediction = predictor.predict(input, deadline).context("--deadline")?;
        Ok(Prediction {
            members: prediction.subset,
            chosen: prediction.chosen,
            used: prediction.used,
            missed: prediction.missed,
            probabilities: prediction.probabilities,
        })
    }))
}

/// Predicts with all outputs.
fn without_deadline<'a, D: Device + 'a>(mut networks: Networks<D>) -> Predict<'a> {
    let count = networks.outputs().count();
    Box::new(move |input| {
        let begin = Instant::now();
        networks.set_images(input)?;
        let mut mean = MeanProbabilities::new(networks.classes());
        for output in (0..count).map(OutputId) {
            mean.add(&networks.run(output)?);
        }
        let all = Subset::all(count);
        Ok(Prediction {
            probabilities: mean.finish(),
            members: all,
            chosen: all,
            used: begin.elapsed(),
            missed: false,
        })
    })
}

/// Parses a deadline: `5ms`, `800us`, `1s`, `0.5ms`.
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
    ensure!(seconds > 0.0, "'{text}': a deadline must be longer than zero");
    ensure!(seconds <= 3600.0, "'{text}' is longer than an hour");
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_parsed() {
        for (text, micros) in [("5ms", 5000), ("800us", 800), ("1s", 1_000_000), ("0.5ms", 500)] {
            assert_eq!(parse(text).unwrap(), Duration::from_micros(micros), "{text}");
        }
        for text in ["", "5", "ms", "0ms", "-1ms", "NaNms", "infs", "9h", "1e9s"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
