//! What training starts from: a recipe, a run to resume, or a run to branch off.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use superweight::data::standard_folder;
use superweight::engine::Device;
use superweight::recipe::{Precision, Recipe, Resolved};
use superweight::run::{Existing, RunError, read_resolved};
use superweight::train::{Branch, Request, Session, TrainError};

use crate::commands::load_recipe;

/// What a session starts from. A recipe is read only once, because it may be a pipe.
pub enum Start {
    /// The newest checkpoint of this run.
    Resume(PathBuf),
    /// A new run from this run's newest checkpoint, with other settings.
    Branch(PathBuf, Vec<String>),
    /// A new run of a recipe.
    Recipe(Box<(Recipe, Resolved)>),
}

impl Start {
    pub fn of(resume: &Option<PathBuf>, recipe: &Option<PathBuf>, set: &[String]) -> Result<Self> {
        match (resume, recipe) {
            (Some(run), _) => Ok(Self::Resume(run.clone())),
            (None, Some(path)) => Ok(Self::Recipe(Box::new(load_recipe(path, set)?))),
            (None, None) => unreachable!("clap requires a recipe if there is no run"),
        }
    }

    /// Prints warnings about settings without an effect; errors are reported when the run is
    /// opened.
    pub fn branch(from: &Path, set: Vec<String>) -> Self {
        let _ = load_recipe(&from.join("resolved.toml"), &set);
        Self::Branch(from.to_owned(), set)
    }

    /// The precision to train in. A folder without a readable recipe is refused when it is opened.
    pub fn precision(&self) -> Precision {
        match self {
            Self::Resume(run) | Self::Branch(run, _) => {
                read_resolved(run).map_or(Precision::Auto, |(_, resolved)| resolved.train.precision)
            }
            Self::Recipe(recipe) => recipe.1.train.precision,
        }
    }

    /// Opens or creates the run.
    pub fn session<D: Device>(
        self,
        device: &D,
        runs: &Path,
        existing: Existing,
    ) -> Result<Session<D>> {
        match self {
            Self::Resume(run) => Session::resume(device, &run, &standard_folder()?)
                .with_context(|| format!("--resume {}", run.display())),
            Self::Branch(from, set) => {
                let branch = Branch { from: &from, set: &set, runs, existing };
                Session::branch(device, branch, &standard_folder()?).map_err(|error| match error {
                    TrainError::Run(RunError::Io { doing: "create", .. }) => {
                        not_created(runs, error)
                    }
                    error => anyhow::Error::new(error).context("--from"),
                })
            }
            Self::Recipe(recipe) => begin(device, &recipe.0, recipe.1, runs, existing),
        }
    }
}

/// What to do if a run of the same name exists: only a name that the user chose is refused.
pub fn existing(replace: bool, named: bool) -> Existing {
    match (replace, named) {
        (true, _) => Existing::Replace,
        (false, true) => Existing::Refuse,
        (false, false) => Existing::NextName,
    }
}

/// Creates a run of a recipe and opens its images.
pub fn begin<D: Device>(
    device: &D,
    recipe: &Recipe,
    resolved: Resolved,
    runs: &Path,
    existing: Existing,
) -> Result<Session<D>> {
    let data = Arc::new(resolved.data.open(&standard_folder()?)?);
    let request =
        Request { resolved, recipe: recipe.as_written(), data, runs: runs.to_owned(), existing };
    Session::create(device, request).map_err(|error| match error {
        TrainError::Run(RunError::Io { .. }) => not_created(runs, error),
        error => error.into(),
    })
}

/// An error about a run's folder that cannot be created, with the flag that names its place.
fn not_created(runs: &Path, error: TrainError) -> anyhow::Error {
    anyhow::Error::new(error).context(format!("--runs {}: choose another folder", runs.display()))
}
