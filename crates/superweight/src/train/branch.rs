//! Branches: a new run that starts from the checkpoint of another one.
//!
//! ```text
//! constant lr ──epoch 50──┬─► milestones 50, 60, 70
//!                         └─► milestone 50, weight averaging over the last 20 epochs
//! ```
//!
//! A branch has the same bits as a run of its recipe from the start, without the time for the
//! common part. So it may change only settings that have not taken effect yet: the number of
//! epochs, later learning rates, weight averaging, evaluation. Other changes are refused, because
//! such a run could not be repeated from its recipe.
//!
//! A crash while the folder is created leaves a run of the recipe at its start, or nothing.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use superweight_engine::Device;
use toml::Table;

use super::setup::recipe_of;
use super::swa::counted;
use super::{Phase, Position, Session, Stage, TrainError};
use crate::data::{Dataset, SET, ValidationSplit};
use crate::recipe::schedule::Length;
use crate::recipe::{DataSettings, PLAN, Resolved};
use crate::run::{
    Disk, Existing, Loaded, RECIPE, RESOLVED, Resumed, RunError, RunFolder, load_checkpoint,
    text_of,
};

/// Request for a branch.
#[derive(Clone, Copy, Debug)]
pub struct Branch<'a> {
    /// Run to start from; it stays unchanged.
    pub from: &'a Path,
    /// Changes to its recipe, as `key=value`.
    pub set: &'a [String],
    /// Folder of all runs.
    pub runs: &'a Path,
    /// What to do if a run of this name exists.
    pub existing: Existing,
}

impl<D: Device> Session<D> {
    /// Starts a run from the newest checkpoint of another run. `data` is the folder of data sets.
    pub fn branch(device: &D, branch: Branch<'_>, data: &Path) -> Result<Self, TrainError> {
        let way = branch.way()?;
        let data = Arc::new(way.old.data.open(data)?);
        Self::branch_off(Disk::default(), device, branch, way, data)
    }

    pub(super) fn branch_off(
        disk: Disk,
        device: &D,
        branch: Branch<'_>,
        way: Way,
        data: Arc<Dataset>,
    ) -> Result<Self, TrainError> {
        branch.checked(&way, &data)?;
        let folder = branch.folder(disk, &way)?;
        Self::open(device, Resumed { folder, loaded: Some(way.loaded) }, way.new, data)
    }
}

/// A run with its checkpoint, its recipe and the recipe of the branch.
pub(super) struct Way {
    pub(super) old: Resolved,
    pub(super) new: Resolved,
    loaded: Loaded,
    position: Position,
}

impl Branch<'_> {
    pub(super) fn way(&self) -> Result<Way, TrainError> {
        let none = || self.refused("it has no checkpoint yet to start from".to_owned());
        let loaded = load_checkpoint(self.from)?.ok_or_else(none)?;
        let (old, recipe) = recipe_of(self.from)?;
        let new = recipe.with(self.set)?.resolve()?;
        let position = Position::of(&loaded.checkpoint)
            .map_err(|why| self.refused(format!("checkpoint {}: {why}", loaded.stamp.number)))?;
        Ok(Way { old, new, loaded, position })
    }

    /// Checks whether the branch is possible, without creating anything. `data` is the data set of
    /// the original run.
    pub fn check(&self, data: &Dataset) -> Result<(), TrainError> {
        self.checked(&self.way()?, data)
    }

    fn checked(&self, way: &Way, data: &Dataset) -> Result<(), TrainError> {
        let DataSettings { validation, split_seed, .. } = way.old.data;
        let split =
            ValidationSplit::draw(&data.train.labels, data.classes.len(), validation, split_seed)?;
        if let Some(why) = way.departs((split.train.len() / way.old.train.batch_size) as u64) {
            return Err(self.refused(why));
        }
        if self.replaces_its_origin(&way.new.name) {
            return Err(self.refused(
                "--replace would remove this run: choose another name (--name)".to_owned(),
            ));
        }
        Ok(())
    }

    fn refused(&self, why: String) -> TrainError {
        TrainError::Branch { from: self.from.to_owned(), why }
    }

    /// Whether `--replace` would remove the run that the branch starts from.
    fn replaces_its_origin(&self, name: &str) -> bool {
        let [from, goes] = [self.from.to_owned(), self.runs.join(name)].map(fs::canonicalize);
        self.existing == Existing::Replace
            && from.is_ok_and(|from| goes.is_ok_and(|goes| from == goes))
    }

    /// Creates the folder with the checkpoint, log and statistics of the original run.
    fn folder(
        &self,
        disk: Disk,
        Way { new, loaded, position, .. }: &Way,
    ) -> Result<RunFolder, RunError> {
        let Position { phase, epoch, .. } = position;
        let mut recipe = text_of(self.from, RECIPE)?.unwrap_or_default();
        recipe += &format!("# --from {}, epoch {epoch} of {phase}\n", self.from.display());
        self.set.iter().for_each(|set| recipe += &format!("# --set {}\n", set.replace('\n', " ")));
        let complete = new.kept().to_toml();
        let [plan, set] = [PLAN, SET].map(|name| text_of(self.from, name));
        let (plan, set) = (plan?, set?);
        let mut files = vec![(RECIPE, recipe.as_str()), (RESOLVED, &complete)];
        files.extend(plan.as_deref().map(|plan| (PLAN, plan)));
        files.extend(set.as_deref().map(|set| (SET, set)));
        RunFolder::create_from(
            disk,
            (self.from, loaded),
            self.runs,
            &new.name,
            self.existing,
            &files,
        )
    }
}

impl Way {
    /// Reason why a run of the new recipe would not reach the state of the old run.
    fn departs(&self, steps_per_epoch: u64) -> Option<String> {
        let Self { old, new, position, .. } = self;
        let mut same = new.clone();
        (same.name, same.seeds) = (old.name.clone(), old.seeds.clone());
        (same.validation_every, same.test, same.test_every) =
            (old.validation_every, old.test, old.test_every);
        let train = (old.train.epochs, old.train.swa_epochs, old.train.schedule.clone());
        (same.train.epochs, same.train.swa_epochs, same.train.schedule) = train;
        if same != *old {
            let what = difference(old, &same).unwrap_or_else(|| "a setting".to_owned());
            return Some(format!(
                "{what}, but the epochs that are complete depend on it: start a new run, or change only \
                 train.epochs, train.milestones and other keys of the schedule, train.swa_epochs, eval.*"
            ));
        }
        let of_training = |resolved: &Resolved| {
            Phase::of(resolved).pop().expect("training is the last phase of all")
        };
        let (before, after) = (of_training(old), of_training(new));
        let done = match position.phase {
            Stage::Search => return None,
            Stage::Train => position.epoch,
        };
        if after.epochs < done {
            return Some(format!(
                "train.epochs would be {}, but {done} epochs are complete",
                after.epochs
            ));
        }
        let lrs = |phase: &Phase, epoch| {
            phase.schedule.table(Length { epochs: phase.epochs, steps_per_epoch }, epoch)
        };
        for epoch in 0..done {
            let pair = lrs(&before, epoch)
                .into_iter()
                .zip(lrs(&after, epoch))
                .find(|(was, now)| was != now);
            if let Some((was, now)) = pair {
                return Some(format!(
                    "epoch {} of {done} complete epochs had lr {was}, and would have {now}: keys of the schedule \
                     (and train.epochs with one-cycle) may change later epochs only",
                    epoch + 1
                ));
            }
        }
        let (average, length) = (new.train.swa_epochs, after.epochs);
        if (average, length) == (old.train.swa_epochs, before.epochs) {
            return None;
        }
        if done == before.epochs && old.train.swa_epochs > 0 {
            return Some(
                "it is finished with weight averaging (train.swa_epochs), and averaged parameters are not trained further"
                    .to_owned(),
            );
        }
        if done == length && average > 0 {
            return Some(format!(
                "all train.epochs = {length} epochs are complete, and averaging happens in the last one \
                 (train.swa_epochs = {average}): set more epochs, or train.swa_epochs = 0"
            ));
        }
        let (is, would_be) = (position.swa, counted(&after, done, average));
        let remedy = match is {
            0 => format!("average at most the {} epochs that remain", length - done),
            _ => format!(
                "train.swa_epochs = {} fits; other values need a branch from before epoch {}",
                length - done + is,
                done - is + 1
            ),
        };
        (is != would_be).then(|| {
            format!(
                "with train.swa_epochs = {average} of {length} epochs the average would hold {would_be} of the {done} \
                 complete epochs, but it holds {is}: {remedy}"
            )
        })
    }
}

/// First key in which two recipes differ.
fn difference(old: &Resolved, new: &Resolved) -> Option<String> {
    let [old, new] =
        [old, new].map(|resolved| Table::try_from(resolved.to_recipe()).unwrap_or_default());
    let shown =
        |value: Option<&toml::Value>| value.map_or("not set".to_owned(), ToString::to_string);
    let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
    // Keys outside of tables decide which tables exist, so they come first.
    keys.sort_by_key(|key| {
        [&old, &new].iter().any(|recipe| recipe.get(*key).is_some_and(toml::Value::is_table))
    });
    let (key, old, new) = keys.into_iter().find_map(|key| match (old.get(key), new.get(key)) {
        (old, new) if old == new => None,
        (Some(toml::Value::Table(old)), Some(toml::Value::Table(new))) => {
            let inner =
                old.keys().chain(new.keys()).find(|inner| old.get(*inner) != new.get(*inner))?;
            Some((format!("{key}.{inner}"), shown(old.get(inner)), shown(new.get(inner))))
        }
        (old, new) => Some((key.clone(), shown(old), shown(new))),
    })?;
    Some(format!("{key} is {old} in that run, and would be {new}"))
}
