//! From a run's folder to the small files that are kept of it.
//!
//! A run must be finished and its newest checkpoint evaluated. Everything that a figure needs is taken from the run's
//! own files; what they cannot know (commit, which images choices were made on) is told.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use superweight_plan::SharingPlan;

use super::check::Published;
use super::error::ResultsError;
use crate::data::EvalSplit;
use super::record::{Accuracies, ChosenOn, Epochs, ImageCounts, Minutes, Record, Settings};
use super::{PREDICTIONS, RECORD};
use crate::infer::anytime::{PROFILE, Profile};
use crate::data::SET;
use crate::evaluate::{Classes, Figures, Predictions, evaluate_subsets};
use crate::model::Subset;
use crate::fs::write_whole;
use crate::recipe::{PLAN, Recipe, Resolved};
use crate::run::{
    COMMANDS, Event, Invocation, LOG, RECIPE, RESOLVED, Stamp, StopEvent, load_checkpoint, read_log, without_folders,
};
use crate::model::{OutputId, Outputs};

/// Members up to which the classes of every ensemble are kept, for an anytime curve: 15 rows of 4 KB.
const MOST_SUBSETS: usize = 4;

/// What a run's files do not know.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// Of the program that trained.
    pub commit: String,
    /// Which images settings were chosen on.
    pub chosen_on: ChosenOn,
    /// The row it is a run of, where that is not the run's name.
    pub row: Option<String>,
}

/// Which checkpoint `swn eval` has looked at.
#[derive(Deserialize)]
struct Evaluated {
    checkpoint: u64,
    #[serde(default)]
    digest: String,
}

/// Writes what is kept of a run into a folder, once it has been written beside it and read back with every check. Where that
/// fails, the folder is what it was.
pub fn publish(run: &Path, folder: &Path, provenance: Provenance) -> Result<Published, ResultsError> {
    let no_checkpoint =
        || ResultsError::file(run, "no checkpoint: the run has not trained an epoch");
    let loaded = load_checkpoint(run)?.ok_or_else(no_checkpoint)?;
    let no_overrides: [&str; 0] = [];
    let resolved = Recipe::load(&run.join(RESOLVED), &no_overrides)?.resolve()?;
    let log_file = run.join(LOG);
    let log = read_log(&log_file)?;
    let finished = matches!(log.last().map(|line| &line.event),
        Some(Event::Stop(stop)) if stop.reason == StopEvent::FINISHED);
    if !finished {
        let what =
            format!("the run is not finished; go on with 'swn train --resume {}'", run.display());
        return Err(ResultsError::file(&log_file, what));
    }
    let images = ImageCounts::of(&log).ok_or_else(|| {
        ResultsError::file(&log_file, "its first line names no numbers of images")
    })?;
    let split = if images.validation > 0 { EvalSplit::Validation } else { EvalSplit::Test };
    let plan = SharingPlan::from_json(&loaded.checkpoint.plan).map_err(|error| {
        ResultsError::file(run, format!("plan.json of its checkpoint: {error}"))
    })?;
    let outputs = Outputs::of(&plan);
    let (figures, classes) = evaluated(run, split, &loaded.stamp, &outputs)?;
    check_profile(run, split, &loaded.stamp, &outputs)?;
    let started = started(&run.join(COMMANDS))?;
    let settings = Settings::of(&plan, &resolved);
    let record = Record {
        version: 1,
        row: provenance.row.unwrap_or(resolved.name.clone()),
        commit: provenance.commit,
        device: started.last().map(|one| one.device.clone()).unwrap_or_default(),
        commands: started.iter().map(|one| without_folders(&one.command)).collect(),
        seed: settings.seed,
        data: settings.data,
        images,
        chosen_on: provenance.chosen_on,
        parameters: settings.parameters,
        total: settings.total,
        budget: settings.budget,
        epochs: Epochs::of(&log),
        minutes: Minutes::of(&log),
        split,
        top1: accuracies(&classes, outputs.count()).ok_or_else(|| {
            ResultsError::file(run, "its predictions lack a member; evaluate it anew")
        })?,
        top5: figures.top5,
        nll: figures.nll,
        ece: figures.ece,
        members: settings.members,
        strategy: settings.strategy,
    };
    let draft = draft_beside(run, folder)?;
    fs::create_dir_all(&draft).map_err(ResultsError::io("create", &draft))?;
    let written = write(run, &draft, &resolved, &loaded.checkpoint.plan, &classes, &record);
    let checked = written.and_then(|()| Published::open(&draft));
    let contradicted = |error: ResultsError| match error {
        ResultsError::Contradiction { what, said, found, file, .. } => {
            let what = format!("{what} is {said} by what was predicted and {found} by its {file}");
            ResultsError::Disagree { run: run.to_owned(), what, held_out: split == EvalSplit::Validation }
        }
        error => error,
    };
    let moved = checked.map_err(contradicted).and_then(|_| move_files(&draft, folder));
    let _ = fs::remove_dir_all(&draft); // what went wrong before is what there is to say
    moved.and_then(|()| Published::open(folder))
}

/// A folder of another name in the same place.
fn draft_beside(run: &Path, folder: &Path) -> Result<PathBuf, ResultsError> {
    if fs::canonicalize(run)
        .ok()
        .is_some_and(|run| fs::canonicalize(folder).is_ok_and(|folder| folder == run))
    {
        return Err(ResultsError::file(
            folder,
            "this is the run's own folder: publish into another one",
        ));
    }
    let nameless = || ResultsError::file(folder, "not the name of a folder");
    let name = folder.file_name().ok_or_else(nameless)?.to_string_lossy();
    Ok(folder.with_file_name(format!(".{name}.{}.tmp", std::process::id())))
}

/// Every file of a draft, whole; one that was published before and is not in the draft goes.
fn move_files(draft: &Path, folder: &Path) -> Result<(), ResultsError> {
    fs::create_dir_all(folder).map_err(ResultsError::io("create", folder))?;
    for name in [LOG, RECIPE, RESOLVED, PROFILE, PLAN, SET, "plan.json", PREDICTIONS, RECORD] {
        let (from, to) = (draft.join(name), folder.join(name));
        if from.exists() {
            fs::rename(&from, &to).map_err(ResultsError::io("write", &to))?;
        } else if to.exists() {
            fs::remove_file(&to).map_err(ResultsError::io("remove", &to))?;
        }
    }
    Ok(())
}

fn write(
    run: &Path,
    folder: &Path,
    resolved: &Resolved,
    plan: &str,
    classes: &Classes,
    record: &Record,
) -> Result<(), ResultsError> {
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        write_whole(&path, bytes).map_err(ResultsError::io("write", &path))
    };
    for name in [LOG, RECIPE, RESOLVED, PROFILE, PLAN] {
        let path = run.join(name);
        match fs::read(&path) {
            Ok(bytes) if name == RECIPE => put(name, set_without_folders(&bytes).as_bytes())?,
            Ok(bytes) => put(name, &bytes)?,
            Err(_) if name == PROFILE => {}
            Err(_) if name == PLAN && resolved.plan.file.is_none() => {}
            Err(error) => return Err(ResultsError::io("read", &path)(error)),
        }
    }
    if let Some(own) = &resolved.data.own {
        put(SET, own.to_json().as_bytes())?;
    }
    put("plan.json", plan.as_bytes())?;
    classes.save(&folder.join(PREDICTIONS))?;
    put(
        RECORD,
        (serde_json::to_string_pretty(record).expect("a record is plain data") + "\n").as_bytes(),
    )
}

/// A recipe whose settings from the command line, which stand below it, name no folders of this machine.
fn set_without_folders(recipe: &[u8]) -> String {
    let text = String::from_utf8_lossy(recipe);
    let is_typed = |line: &str| ["# --set ", "# --from "].iter().any(|flag| line.starts_with(flag));
    let line = |line: &str| if is_typed(line) { without_folders(line) } else { line.to_owned() };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}


/// Top-1 of some members together in percent, counted; none where they are missing.
pub(super) fn count(classes: &Classes, subset: Subset) -> Option<f64> {
    let pairs = classes.rows.get(&subset)?.iter().zip(&classes.labels);
    // In this order 79 of 100 are 79, not 79.00000000000001.
    Some(
        100.0 * pairs.filter(|(class, label)| class == label).count() as f64
            / classes.labels.len() as f64,
    )
}

/// Top-1 of members and all together; none where one is missing.
pub(super) fn accuracies(classes: &Classes, outputs: usize) -> Option<Accuracies> {
    let percent = |subset| count(classes, subset);
    let each = (0..outputs).map(|output| percent(Subset::one(OutputId(output))));
    Some(Accuracies {
        ensemble: percent(Subset::all(outputs))?,
        members: each.collect::<Option<_>>()?,
    })
}

/// The figures of all together and the classes that are kept, from the logits that the newest checkpoint gave.
fn evaluated(
    run: &Path,
    split: EvalSplit,
    newest: &Stamp,
    outputs: &Outputs,
) -> Result<(Figures, Classes), ResultsError> {
    let part = split.name();
    let file = run.join("evaluation").join(format!("{part}.json"));
    let again = format!("evaluate it with 'swn eval {}{}'", run.display(), split.flag());
    let text = fs::read_to_string(&file)
        .map_err(|error| ResultsError::file(&file, format!("{error}; {again}")))?;
    let read: Evaluated = serde_json::from_str(&text)
        .map_err(|error| ResultsError::file(&file, format!("{error}; {again}")))?;
    if let Some(what) =
        newest.contradiction(&Stamp { number: read.checkpoint, digest: read.digest })
    {
        return Err(ResultsError::file(&file, format!("{what}; {again}")));
    }
    let file = file.with_extension("safetensors");
    let full = Predictions::load(&file)
        .map_err(|error| ResultsError::file(run, format!("{error}; {again}")))?;
    let about = |key| full.about.get(key).map_or("", String::as_str);
    let number = about("checkpoint").parse().unwrap_or(newest.number);
    let said = Stamp { number, digest: about("digest").to_owned() };
    if let Some(what) = newest.contradiction(&said) {
        return Err(ResultsError::file(&file, format!("{what}; {again}")));
    }
    if full.outputs() != outputs.count() {
        let (found, words) = (full.outputs(), outputs.words());
        let what = format!("of {found} {words}, the run has {}; {again}", outputs.count());
        return Err(ResultsError::file(&file, what));
    }
    let together = evaluate_subsets(&full, &Subset::prefixes(outputs.count())).pop();
    let figures = together.expect("somebody answers").scores().into();
    let mut classes = full.to_classes();
    let few = (2..=MOST_SUBSETS).contains(&outputs.count()) || outputs.nested();
    if let Some(subsets) = outputs.subsets().ok().filter(|_| few) {
        classes.rows =
            subsets.into_iter().map(|subset| (subset, full.classes_of(subset))).collect();
    }
    Ok((figures, classes))
}

/// A profile, where there is one, is of the same checkpoint and of those who answer.
fn check_profile(
    run: &Path,
    split: EvalSplit,
    newest: &Stamp,
    outputs: &Outputs,
) -> Result<(), ResultsError> {
    let file = run.join(PROFILE);
    if !file.exists() {
        return Ok(());
    }
    match Profile::load(&file)?.contradiction(outputs, newest) {
        None => Ok(()),
        Some(what) => {
            let again = format!("'swn anytime {}{}' makes it anew", run.display(), split.flag());
            Err(ResultsError::file(&file, format!("{what}; {again}")))
        }
    }
}

fn started(file: &Path) -> Result<Vec<Invocation>, ResultsError> {
    let told =
        "a line such as {\"command\":\"swn train …\",\"device\":\"NVIDIA H200\"} for every process";
    let text = fs::read_to_string(file).map_err(|error| {
        ResultsError::file(
            file,
            format!("{error}; an older program has not written it: write {told}"),
        )
    })?;
    let line = |line: &str| {
        serde_json::from_str(line)
            .map_err(|error| ResultsError::file(file, format!("{error}; {told}")))
    };
    let all: Vec<Invocation> = text.lines().map(line).collect::<Result<_, _>>()?;
    match all.is_empty() {
        true => Err(ResultsError::file(file, format!("it is empty; {told}"))),
        false => Ok(all),
    }
}
