//! Opens a run for reading: its recipe, newest checkpoint, plan, log and commands.
//!
//! Everything that reads a run (evaluation, report, export, the tables of a sweep) goes through
//! [`OpenRun::open`]. No lock is taken: the run may be training meanwhile. To write to a run, see
//! [`RunFolder::resume`](super::RunFolder::resume).

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use superweight_plan::SharingPlan;

use super::checkpoints::{Loaded, Stamp};
use super::error::RunError;
use super::event::{Event, StartEvent, StopEvent};
use super::folder::{LOG, RECIPE, RESOLVED, load_parameters, text_of};
use super::invocation::Invocation;
use super::log::{Line, read_log};
use crate::recipe::{Recipe, Resolved};

/// A run that was opened for reading.
#[derive(Debug)]
#[non_exhaustive]
pub struct OpenRun {
    /// Folder of the run.
    pub path: PathBuf,
    /// `resolved.toml` as a recipe, for [`Recipe::with`].
    pub kept: Recipe,
    /// The recipe with every default filled in.
    pub resolved: Resolved,
    /// Newest checkpoint without optimizer and weight average; `None` before the first.
    pub loaded: Option<Loaded>,
    /// Plan of that checkpoint.
    pub plan: Option<SharingPlan>,
}

impl OpenRun {
    /// Reads `resolved.toml` and the newest checkpoint of a run (plan, parameters and state), and
    /// checks that they fit together.
    ///
    /// # Errors
    /// Fails if the folder is not a run, if one of the files is damaged, or if the plan of the
    /// checkpoint contradicts the recipe. A damaged log is an error of [`log`](Self::log) only.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let loaded = load_parameters(path)?;
        let (kept, resolved) = read_resolved(path)?;
        let plan = loaded.as_ref().map(|loaded| plan_of(path, loaded, &resolved)).transpose()?;
        Ok(Self { path: path.to_owned(), kept, resolved, loaded, plan })
    }

    /// Identity of the newest checkpoint.
    pub fn stamp(&self) -> Option<&Stamp> {
        self.loaded.as_ref().map(|loaded| &loaded.stamp)
    }

    /// Plan and newest checkpoint, for readers that need both.
    ///
    /// # Errors
    /// Fails with [`RunError::NoCheckpoint`] before the first checkpoint.
    pub fn into_trained(self) -> Result<(Resolved, SharingPlan, Loaded), RunError> {
        match (self.plan, self.loaded) {
            (Some(plan), Some(loaded)) => Ok((self.resolved, plan, loaded)),
            _ => Err(RunError::NoCheckpoint { path: self.path }),
        }
    }

    /// Reads all events of the log; empty if the run has no log.
    pub fn log(&self) -> Result<Vec<Line>, RunError> {
        match read_log(&self.path.join(LOG)) {
            Err(RunError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(vec![]),
            read => read,
        }
    }

    /// Reads the recipe as the user wrote it; empty if the run does not have it.
    pub fn recipe(&self) -> Result<String, RunError> {
        Ok(text_of(&self.path, RECIPE)?.unwrap_or_default())
    }

    /// Reads the processes that trained the run.
    pub fn invocations(&self) -> Vec<Invocation> {
        Invocation::all(&self.path)
    }
}

/// Reads the complete recipe of a run: as a recipe file, and resolved.
pub fn read_resolved(run: &Path) -> Result<(Recipe, Resolved), RunError> {
    let recipe = Recipe::load(&run.join(RESOLVED), &[] as &[&str])?;
    let resolved = recipe.resolve()?;
    Ok((recipe, resolved))
}

/// The first event of a log, if it is the start of a run.
pub fn start_of(log: &[Line]) -> Option<&StartEvent> {
    log.iter().find_map(|line| match &line.event {
        Event::Start(start) => Some(&**start),
        _ => None,
    })
}

/// The last event of a log, if it is the end of a run.
pub fn stop_of(log: &[Line]) -> Option<&StopEvent> {
    match &log.last()?.event {
        Event::Stop(stop) => Some(stop),
        _ => None,
    }
}

fn plan_of(path: &Path, loaded: &Loaded, resolved: &Resolved) -> Result<SharingPlan, RunError> {
    let (path, number) = (path.to_owned(), loaded.stamp.number);
    let plan = match SharingPlan::from_json(&loaded.checkpoint.plan) {
        Ok(plan) => plan,
        Err(source) => return Err(RunError::Plan { path, number, source: Box::new(source) }),
    };
    match resolved.contradiction(&plan) {
        None => Ok(plan),
        Some(reason) => Err(RunError::OtherRecipe { path, number, reason }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::data::testing::Folder;
    use crate::run::{Checkpoint, Existing, ResumeEvent, RunFolder, WarningEvent};

    const RECIPE: &str = "members = ['wrn-10-1']\ndata.name = 'mnist'\n";

    fn recipe(set: &[&str]) -> Resolved {
        Recipe::parse("r.toml", RECIPE, set).unwrap().resolve().unwrap()
    }

    /// A run with one checkpoint that holds the plan of `planned`.
    fn run(runs: &Path, planned: &Resolved) -> PathBuf {
        let complete = recipe(&["name='demo'"]).kept().to_toml();
        let run = RunFolder::create(runs, "demo", Existing::Replace, RECIPE, &complete).unwrap();
        let plan = planned.first_plan().unwrap().to_json();
        run.checkpoints().save(3, &Checkpoint { plan, ..Checkpoint::default() }).unwrap();
        run.path().to_owned()
    }

    #[test]
    fn an_open_run_has_recipe_checkpoint_plan_log_and_commands() {
        let folder = Folder::new("open");
        let resolved = recipe(&["name='demo'"]);
        let path = run(&folder.0, &resolved);
        let open = OpenRun::open(&path).unwrap();
        assert_eq!((&open.path, open.recipe().unwrap().as_str()), (&path, RECIPE));
        assert_eq!(open.resolved.members, resolved.members);
        assert_eq!(open.stamp().unwrap().number, 3);
        assert_eq!(open.plan, Some(resolved.first_plan().unwrap()));
        assert_eq!((open.log().unwrap(), open.invocations()), (vec![], vec![]));
        let with = open.kept.with(&["train.lr=0.5"]).unwrap().resolve().unwrap();
        assert_ne!(with, open.resolved);

        // A run in training is open too, and its files are read again at each call.
        let writer = RunFolder::resume(&path).unwrap();
        let (mut log, _) = writer.open_log().unwrap();
        log.add(Event::Warning(WarningEvent { warning: "hot".to_owned() })).unwrap();
        let resume = ResumeEvent { checkpoint: 3, phase: "train".to_owned(), epoch: 1 };
        log.add(Event::Resume(resume)).unwrap();
        let device = Invocation { command: "swn train".to_owned(), device: "cpu".to_owned() };
        device.note(&path).unwrap();
        assert_eq!((open.log().unwrap().len(), open.invocations()), (2, vec![device]));
        let (found, plan, loaded) = OpenRun::open(&path).unwrap().into_trained().unwrap();
        assert_eq!((found.seed, loaded.stamp.number), (resolved.seed, 3));
        assert_eq!(plan, resolved.first_plan().unwrap());
    }

    #[test]
    fn a_run_without_a_checkpoint_opens_and_has_nothing_trained() {
        let folder = Folder::new("open-early");
        let complete = recipe(&["name='demo'"]).kept().to_toml();
        let run =
            RunFolder::create(&folder.0, "demo", Existing::Refuse, RECIPE, &complete).unwrap();
        let open = OpenRun::open(run.path()).unwrap();
        assert!(open.loaded.is_none() && open.plan.is_none() && open.stamp().is_none());
        fs::remove_file(run.path().join("recipe.toml")).unwrap();
        assert_eq!(open.recipe().unwrap(), "");
        let error = open.into_trained().unwrap_err();
        assert!(matches!(error, RunError::NoCheckpoint { .. }), "{error}");
    }

    #[test]
    fn damaged_and_contradicting_files_are_errors() {
        let folder = Folder::new("open-damage");
        let path = run(&folder.0, &recipe(&["name='demo'"]));
        fs::write(path.join("log.jsonl"), "{}\n").unwrap();
        let open = OpenRun::open(&path).unwrap();
        assert!(matches!(open.log().unwrap_err(), RunError::Malformed { .. }));
        assert!(matches!(OpenRun::open(&folder.0), Err(RunError::NotARun { .. })));

        let kept = fs::read_to_string(path.join("resolved.toml")).unwrap();
        fs::write(path.join("resolved.toml"), "members = 3").unwrap();
        let error = OpenRun::open(&path).unwrap_err();
        assert!(matches!(&error, RunError::Recipe(_)), "{error}");
        assert!(error.to_string().contains("resolved.toml:1:"), "{error}");
        fs::write(path.join("resolved.toml"), kept).unwrap();

        let other = recipe(&["name='demo'", "members=['wrn-10-1', 'wrn-10-2']"]);
        let path = run(&folder.0, &other);
        let error = OpenRun::open(&path).unwrap_err();
        assert!(matches!(&error, RunError::OtherRecipe { number: 3, .. }), "{error}");
        let run = RunFolder::resume(&path).unwrap().folder;
        run.checkpoints()
            .save(4, &Checkpoint { plan: "{".to_owned(), ..Checkpoint::default() })
            .unwrap();
        let error = OpenRun::open(&path).unwrap_err();
        assert!(matches!(&error, RunError::Plan { number: 4, .. }), "{error}");
    }
}
