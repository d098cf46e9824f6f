//! Copies the small files of a finished run into a folder of results, with a record of its figures.
//!
//! The run must be finished and its newest checkpoint evaluated. Every figure comes from the run's
//! own files; [`Provenance`] states what they do not contain.

use std::fs;
use std::path::{Path, PathBuf};

use super::check::Published;
use super::error::ResultsError;
use super::record::{
    Accuracies, ChosenOn, Epochs, ImageCounts, Minutes, PREDICTIONS, RECORD, Record, Settings,
};
use crate::data::{EvalSplit, SET};
use crate::evaluate::{Classes, EvaluationRecord, Figures, Predictions, evaluate_subsets};
use crate::fs::write_whole;
use crate::infer::anytime::{PROFILE, Profile};
use crate::model::Outputs;
use crate::model::Subset;
use crate::recipe::{PLAN, Resolved};
use crate::run::{
    COMMANDS, Invocation, LOG, OpenRun, RECIPE, RESOLVED, Stamp, StopEvent, stop_of,
    without_folders,
};

/// Number of members up to which the classes of every ensemble are kept, for an anytime curve: 15
/// rows of 4 KB.
const MAX_MEMBERS_WITH_SUBSETS: usize = 4;

/// Facts about a run that its files do not contain.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// Commit of the program that trained the run.
    pub commit: String,
    /// Images on which settings were chosen.
    pub chosen_on: ChosenOn,
    /// Row of the table that the run belongs to; none for the run's name.
    pub row: Option<String>,
}

/// Publishes a run into a folder. The files are written into a draft beside it, and read back with
/// every check; then they replace the folder's files. If a step fails, the folder is unchanged.
pub fn publish(
    run: &Path,
    folder: &Path,
    provenance: Provenance,
) -> Result<Published, ResultsError> {
    let open = OpenRun::open(run)?;
    let log_file = run.join(LOG);
    let log = open.log()?;
    if stop_of(&log).is_none_or(|stop| stop.reason != StopEvent::FINISHED) {
        let what = format!(
            "the run is not finished; continue it with 'swn train --resume {}'",
            run.display()
        );
        return Err(ResultsError::file(&log_file, what));
    }
    let (resolved, plan, loaded) = open.into_trained()?;
    let images = ImageCounts::of(&log).ok_or_else(|| {
        ResultsError::file(
            &log_file,
            "its first line does not state the number of images of each split",
        )
    })?;
    let split = if images.validation > 0 { EvalSplit::Validation } else { EvalSplit::Test };
    let outputs = Outputs::of_plan(&plan);
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
        top1: Accuracies::count(&classes, outputs.count()).ok_or_else(|| {
            ResultsError::file(run, "its predictions lack a member; evaluate it again")
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
        ResultsError::Contradiction { what, recorded, found, file, .. } => {
            let what = format!("{what} is {recorded} in its predictions and {found} in its {file}");
            ResultsError::Disagree {
                run: run.to_owned(),
                what,
                validation: split == EvalSplit::Validation,
            }
        }
        error => error,
    };
    let moved = checked.map_err(contradicted).and_then(|_| move_files(&draft, folder));
    let _ = fs::remove_dir_all(&draft); // the first error is the one to report
    moved.and_then(|()| Published::open(folder))
}

/// A hidden folder beside the destination.
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
    let unnamed = || ResultsError::file(folder, "not the name of a folder");
    let name = folder.file_name().ok_or_else(unnamed)?.to_string_lossy();
    Ok(folder.with_file_name(format!(".{name}.{}.tmp", std::process::id())))
}

/// Moves every file of a draft into the folder, and removes published files that the draft does not
/// have.
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

/// Writes every file of the publication into a folder.
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

/// The recipe without local folders in the settings from the command line, which are appended to
/// it.
fn set_without_folders(recipe: &[u8]) -> String {
    let text = String::from_utf8_lossy(recipe);
    let is_typed = |line: &str| ["# --set ", "# --from "].iter().any(|flag| line.starts_with(flag));
    let line = |line: &str| if is_typed(line) { without_folders(line) } else { line.to_owned() };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Figures of all outputs together, and the classes to keep, from the logits of the newest
/// checkpoint.
fn evaluated(
    run: &Path,
    split: EvalSplit,
    newest: &Stamp,
    outputs: &Outputs,
) -> Result<(Figures, Classes), ResultsError> {
    let file = run.join("evaluation").join(format!("{}.json", split.name()));
    let again = format!("evaluate it with 'swn eval {}{}'", run.display(), split.flag());
    let text = fs::read_to_string(&file)
        .map_err(|error| ResultsError::file(&file, format!("{error}; {again}")))?;
    let read: EvaluationRecord = serde_json::from_str(&text)
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
    let found = Stamp { number, digest: about("digest").to_owned() };
    if let Some(what) = newest.contradiction(&found) {
        return Err(ResultsError::file(&file, format!("{what}; {again}")));
    }
    if full.outputs() != outputs.count() {
        let (found, words) = (full.outputs(), outputs.words());
        let what = format!("it is of {found} {words}, the run has {}; {again}", outputs.count());
        return Err(ResultsError::file(&file, what));
    }
    let together = evaluate_subsets(&full, &Subset::prefixes(outputs.count())).pop();
    let figures = together.expect("a run has at least one output").scores().into();
    let mut classes = full.to_classes();
    let all = (2..=MAX_MEMBERS_WITH_SUBSETS).contains(&outputs.count()) || outputs.nested();
    if let Some(subsets) = outputs.subsets().ok().filter(|_| all) {
        classes.rows =
            subsets.into_iter().map(|subset| (subset, full.classes_of(subset))).collect();
    }
    Ok((figures, classes))
}

/// Checks that the run's profile, if there is one, is of this checkpoint and these outputs.
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
            let again = format!("'swn anytime {}{}' measures again", run.display(), split.flag());
            Err(ResultsError::file(&file, format!("{what}; {again}")))
        }
    }
}

/// Commands that started and resumed the run, from `commands.jsonl`.
fn started(file: &Path) -> Result<Vec<Invocation>, ResultsError> {
    let example =
        "a line such as {\"command\":\"swn train …\",\"device\":\"NVIDIA H200\"} for every process";
    let text = fs::read_to_string(file).map_err(|error| {
        ResultsError::file(
            file,
            format!("{error}; older programs did not write it: write {example}"),
        )
    })?;
    let line = |line: &str| {
        serde_json::from_str(line)
            .map_err(|error| ResultsError::file(file, format!("{error}; {example}")))
    };
    let all: Vec<Invocation> = text.lines().map(line).collect::<Result<_, _>>()?;
    match all.is_empty() {
        true => Err(ResultsError::file(file, format!("it is empty; {example}"))),
        false => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_recipe_lose_their_folders() {
        let recipe = "# of /my/own\nbudget = '10%'\n# --set plan.file=/p/q.json\n\
                      # --from /p/a, epoch 2 of train\n";
        let published = "# of /my/own\nbudget = '10%'\n# --set plan.file=q.json\n\
                         # --from a, epoch 2 of train\n";
        assert_eq!(set_without_folders(recipe.as_bytes()), published);
    }
}
