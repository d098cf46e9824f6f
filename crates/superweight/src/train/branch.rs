//! A run that goes on as another: one beginning, several ends.
//!
//! ```text
//! plateau ──epoch 50──┬─► drops after 50, 60, 70
//!                     └─► a drop after 50, the mean of the last 20 epochs
//! ```
//!
//! A branch is the run that its recipe makes from the beginning, bit for bit, without the time that its beginning takes. So
//! settings may differ only where they have had no say yet: how many epochs there are, rates of those to come, which of them are
//! averaged, what is looked at meanwhile. Not any setting from here on: such a run could not be had again from its recipe, and
//! nobody would see that from its folder.
//!
//! A crash while the folder is made leaves a run of the recipe at its beginning, or nothing.

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

/// A run to go on with as another.
#[derive(Clone, Copy, Debug)]
pub struct Branch<'a> {
    /// Its beginning: a run, which stays as it is.
    pub from: &'a Path,
    /// What is different from its recipe, as `key=value`.
    pub set: &'a [String],
    /// Where runs lie.
    pub runs: &'a Path,
    /// What to do where there is a run of the name already.
    pub existing: Existing,
}

impl<D: Device> Session<D> {
    /// Begins a run where another one is. `data` is the folder of data sets.
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

/// How far a run has come, by which recipe, and by which one it is to go on.
pub(super) struct Way {
    pub(super) old: Resolved,
    pub(super) new: Resolved,
    loaded: Loaded,
    position: Position,
}

impl Branch<'_> {
    pub(super) fn way(&self) -> Result<Way, TrainError> {
        let none = || {
            self.refused("it has no checkpoint yet, so there is nothing to go on from".to_owned())
        };
        let loaded = load_checkpoint(self.from)?.ok_or_else(none)?;
        let (old, recipe) = recipe_of(self.from)?;
        let new = recipe.with(self.set)?.resolve()?;
        let position = Position::of(&loaded.checkpoint)
            .map_err(|why| self.refused(format!("checkpoint {}: {why}", loaded.stamp.number)))?;
        Ok(Way { old, new, loaded, position })
    }

    /// Whether there is such a way on, before anything is made of it; with the images of the run it comes from.
    pub fn check(&self, data: &Dataset) -> Result<(), TrainError> {
        self.checked(&self.way()?, data)
    }

    fn checked(&self, way: &Way, data: &Dataset) -> Result<(), TrainError> {
        let DataSettings { validation, split_seed, .. } = way.old.data;
        let split = ValidationSplit::hold_out(
            &data.train.labels,
            data.classes.len(),
            validation,
            split_seed,
        )?;
        if let Some(why) = way.departs((split.train.len() / way.old.train.batch_size) as u64) {
            return Err(self.refused(why));
        }
        if self.replaces_its_beginning(&way.new.name) {
            return Err(self.refused(
                "it is what --replace would remove: choose another name (--name)".to_owned(),
            ));
        }
        Ok(())
    }

    fn refused(&self, why: String) -> TrainError {
        TrainError::Branch { from: self.from.to_owned(), why }
    }

    /// Whether the run that is to make room is the one it comes from.
    fn replaces_its_beginning(&self, name: &str) -> bool {
        let [from, goes] = [self.from.to_owned(), self.runs.join(name)].map(fs::canonicalize);
        self.existing == Existing::Replace
            && from.is_ok_and(|from| goes.is_ok_and(|goes| from == goes))
    }

    /// Its folder, with all that the other run's has of the way so far.
    fn folder(
        &self,
        disk: Disk,
        Way { new, loaded, position, .. }: &Way,
    ) -> Result<RunFolder, RunError> {
        let Position { phase, epoch, .. } = position;
        let mut asked = text_of(self.from, RECIPE)?.unwrap_or_default();
        asked += &format!("# --from {}, epoch {epoch} of {phase}\n", self.from.display());
        self.set.iter().for_each(|set| asked += &format!("# --set {}\n", set.replace('\n', " ")));
        let complete = new.kept().to_toml();
        let [plan, set] = [PLAN, SET].map(|name| text_of(self.from, name));
        let (plan, set) = (plan?, set?);
        let mut files = vec![(RECIPE, asked.as_str()), (RESOLVED, &complete)];
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
    /// Why a run of the new recipe would not have come to where the old one is.
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
                "{what}, and what is trained depends on it: begin anew, or set only what is to come: \
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
            return Some(format!("train.epochs would be {}, and {done} are done", after.epochs));
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
                    "in epoch {} of {done} that are done the lr was {was}, and would be {now}: train.milestones \
                     and other keys of the schedule (where it is one-cycle train.epochs too) can change what \
                     is to come only",
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
                "it is finished, with a mean of epochs (train.swa_epochs), and a mean is not trained on"
                    .to_owned(),
            );
        }
        if done == length && average > 0 {
            return Some(format!(
                "train.epochs would be {length}, which are done, and a mean is made when the last one ends \
                 (train.swa_epochs = {average}): more epochs, or train.swa_epochs = 0"
            ));
        }
        let (is, would_be) = (position.swa, counted(&after, done, average));
        let remedy = match is {
            0 => format!("average no more than the {} that are to come", length - done),
            _ => format!(
                "train.swa_epochs = {} fits them, other means need a beginning before epoch {}",
                length - done + is,
                done - is + 1
            ),
        };
        (is != would_be).then(|| {
            format!(
                "with train.swa_epochs = {average} of {length} epochs, {would_be} of the {done} that are done \
                 would be in the mean, and {is} are: {remedy}"
            )
        })
    }
}

/// The first key that two recipes differ in.
fn difference(old: &Resolved, new: &Resolved) -> Option<String> {
    let [old, new] =
        [old, new].map(|resolved| Table::try_from(resolved.to_recipe()).unwrap_or_default());
    let said =
        |value: Option<&toml::Value>| value.map_or("not set".to_owned(), ToString::to_string);
    let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
    // Which tables there are is for keys outside of them to say.
    keys.sort_by_key(|key| {
        [&old, &new].iter().any(|recipe| recipe.get(*key).is_some_and(toml::Value::is_table))
    });
    let (key, old, new) = keys.into_iter().find_map(|key| match (old.get(key), new.get(key)) {
        (old, new) if old == new => None,
        (Some(toml::Value::Table(old)), Some(toml::Value::Table(new))) => {
            let inner =
                old.keys().chain(new.keys()).find(|inner| old.get(*inner) != new.get(*inner))?;
            Some((format!("{key}.{inner}"), said(old.get(inner)), said(new.get(inner))))
        }
        (old, new) => Some((key.clone(), said(old), said(new))),
    })?;
    Some(format!("{key} is {old} there, and would be {new}"))
}
