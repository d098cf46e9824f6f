//! Creates a session from a recipe, or resumes one from a run folder.
//!
//! Plan, budget, images and memory are checked before a folder is created.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use superweight_engine::Device;
use superweight_plan::SharingPlan;

use super::checkpoint::restore;
use super::session::Session;
use super::sharing::resumed_statistics;
use super::weight_decay::weight_decay_groups;
use super::{Phase, Position, TrainError, Trainer, swa};
use crate::data::{DataError, Dataset, SET, ValidationSplit, standard_folder};
use crate::model::bank;
use crate::recipe::{PLAN, Recipe, Resolved};
use crate::run::{
    Cut, Disk, Event, Existing, Loaded, Log, RECIPE, RESOLVED, ResumeEvent, Resumed, RunFolder,
    StartEvent, TensorBoard, Tensors, read_log,
};
use crate::search::Statistics;

/// Request for a new run.
#[derive(Clone, Debug)]
pub struct Request {
    /// Complete recipe.
    pub resolved: Resolved,
    /// Recipe as the user wrote it, for the folder.
    pub recipe: String,
    /// Data set.
    pub data: Arc<Dataset>,
    /// Folder of all runs.
    pub runs: PathBuf,
    /// What to do if a run of this name exists.
    pub existing: Existing,
}

impl Request {
    /// Request for a run of this recipe, in a folder below `runs`: completes the recipe and opens
    /// its data set. If a run of the name exists, the new one gets a number.
    pub fn new(recipe: &Recipe, runs: impl AsRef<Path>) -> Result<Self, TrainError> {
        let resolved = recipe.resolve()?;
        let folder = match resolved.data.needs_folder() {
            true => standard_folder()?,
            false => PathBuf::new(),
        };
        let data = Arc::new(resolved.data.open(&folder)?);
        let (recipe, runs) = (recipe.as_written(), runs.as_ref().to_owned());
        Ok(Self { resolved, recipe, data, runs, existing: Existing::NextName })
    }
}

impl<D: Device> Session<D> {
    /// Starts a run: plans, compiles, initialises parameters, creates the folder.
    pub fn create(device: &D, request: Request) -> Result<Self, TrainError> {
        Self::create_on(Disk::default(), device, request)
    }

    pub(crate) fn create_on(disk: Disk, device: &D, request: Request) -> Result<Self, TrainError> {
        let Request { resolved, recipe, data, runs, existing } = request;
        let parts = Parts::begin(device, &resolved, &data)?;
        let complete = resolved.kept().to_toml();
        let plan = resolved.plan.file.as_ref().map(|_| parts.trainer.ensemble().plan().to_json());
        let mut files = vec![(RECIPE, recipe.as_str()), (RESOLVED, &complete)];
        files.extend(plan.as_ref().map(|plan| (PLAN, plan.as_str())));
        let own = resolved.data.own.as_ref().map(|own| own.to_json());
        files.extend(own.as_ref().map(|own| (SET, own.as_str())));
        let folder = RunFolder::create_on(disk, &runs, &resolved.name, existing, &files)?;
        let (log, board) = (folder.log()?, folder.tensorboard(None)?);
        let mut session = parts.session(resolved, data, folder, log, board, None);
        session.log.add(Event::Start(Box::new(session.start_event())))?;
        Ok(session)
    }

    /// Resumes a run from its newest intact checkpoint, or from the start if there is none. `data`
    /// is the folder of data sets.
    pub fn resume(device: &D, run: &Path, data: &Path) -> Result<Self, TrainError> {
        let resumed = RunFolder::resume(run)?;
        let (resolved, _) = recipe_of(run)?;
        let data = Arc::new(resolved.data.open(data)?);
        Self::open(device, resumed, resolved, data)
    }

    pub(crate) fn open(
        device: &D,
        resumed: Resumed,
        resolved: Resolved,
        data: Arc<Dataset>,
    ) -> Result<Self, TrainError> {
        let (parts, number) = match &resumed.loaded {
            Some(loaded) => {
                let folder = &resumed.folder;
                (
                    Parts::from_checkpoint(device, &resolved, &data, folder, loaded)?,
                    Some(loaded.stamp.number),
                )
            }
            None => (Parts::begin(device, &resolved, &data)?, None),
        };
        let (log, cut) = resumed.open_log()?;
        // A damaged log is reported now, not after training.
        read_log(&resumed.folder.path().join("log.jsonl"))?;
        let Resumed { folder, loaded } = resumed;
        let position = parts.position;
        let board = folder.tensorboard(Some(position.steps as i64 + 1))?;
        let (statistics, lost) = resumed_statistics(&folder, position);
        let mut session = parts.session(resolved, data, folder, log, board, number);
        session.statistics = statistics;
        match number {
            None => session.log.add(Event::Start(Box::new(session.start_event())))?,
            Some(number) => {
                let Position { phase, epoch, .. } = position;
                let phase = phase.word().to_owned();
                let resume = ResumeEvent { checkpoint: number, phase, epoch };
                session.log.add(Event::Resume(resume))?;
            }
        }
        for warning in warnings(&loaded, cut).into_iter().chain(lost) {
            session.warn(warning)?;
        }
        Ok(session)
    }

    /// First event of the log.
    fn start_event(&self) -> StartEvent {
        let plan = self.plan();
        StartEvent {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: self.resolved.name.clone(),
            strategy: self.resolved.strategy,
            seed: self.resolved.seed,
            members: self.resolved.members.iter().map(ToString::to_string).collect(),
            budget: plan.budget,
            bill: plan.bill,
            weight_decay: self.groups.clone(),
            data: self.resolved.data.name.clone(),
            images: self.images(),
            test_every: self.resolved.test_every,
        }
    }
}

/// Reads the complete recipe of a run.
pub(super) fn recipe_of(run: &Path) -> Result<(Resolved, Recipe), TrainError> {
    let file = run.join(RESOLVED);
    let recipe = Recipe::load(&file, &[] as &[&str])?;
    let resolved = recipe.resolve()?;
    // Single keys may be newer than the run. A missing table was cut off, and defaults would
    // silently replace it.
    let (tables, text) = (resolved.to_toml(), recipe.as_written());
    let mut tables = tables.lines().filter(|line| line.starts_with('['));
    match tables.find(|&table| !text.lines().any(|line| line.trim() == table)) {
        Some(table) => {
            Err(TrainError::Cut { file: file.display().to_string(), table: table.to_owned() })
        }
        None => Ok((resolved, recipe)),
    }
}

/// Parts of a session before it has a folder.
struct Parts<D: Device> {
    phases: Vec<Phase>,
    split: ValidationSplit,
    trainer: Trainer<D>,
    position: Position,
    mean: Tensors,
}

impl<D: Device> Parts<D> {
    /// Parts at the first step of the first phase.
    fn begin(device: &D, resolved: &Resolved, data: &Arc<Dataset>) -> Result<Self, TrainError> {
        let plan = resolved.first_plan()?;
        let mut parts = Self::build(device, resolved, data, &plan)?;
        let seed = parts.position.phase.seed(resolved.seed);
        bank::initialize(&plan, parts.trainer.parts_mut().0.memory_mut(), seed)?;
        Ok(parts)
    }

    /// Parts at the position of a checkpoint.
    fn from_checkpoint(
        device: &D,
        resolved: &Resolved,
        data: &Arc<Dataset>,
        folder: &RunFolder,
        Loaded { stamp, checkpoint, .. }: &Loaded,
    ) -> Result<Self, TrainError> {
        let unusable = |why: String| TrainError::Checkpoint {
            number: stamp.number,
            path: folder.path().to_owned(),
            why,
        };
        let plan = SharingPlan::from_json(&checkpoint.plan)
            .map_err(|e| unusable(format!("plan.json: {e}")))?;
        if let Some(why) = resolved.contradiction(&plan) {
            return Err(unusable(format!("{why}: a file belongs to another run")));
        }
        let position = Position::of(checkpoint).map_err(unusable)?;
        let mut parts = Self::build(device, resolved, data, &plan)?;
        let Position { phase: stage, epoch, .. } = position;
        let mut phases = parts.phases.iter();
        let Some(phase) = phases.find(|phase| phase.stage == stage && epoch <= phase.epochs) else {
            return Err(unusable(format!(
                "state.json: the recipe has no epoch {epoch} of phase '{stage}'"
            )));
        };
        parts.mean = swa::restored(phase, &position, resolved.train.swa_epochs, checkpoint)
            .map_err(unusable)?;
        let (ensemble, optimizer) = parts.trainer.parts_mut();
        restore(ensemble, optimizer, checkpoint).map_err(|e| unusable(e.to_string()))?;
        Ok(Self { position, ..parts })
    }

    fn build(
        device: &D,
        resolved: &Resolved,
        data: &Arc<Dataset>,
        plan: &SharingPlan,
    ) -> Result<Self, TrainError> {
        let phases = Phase::of(resolved);
        let split = ValidationSplit::draw(
            &data.train.labels,
            data.classes.len(),
            resolved.data.validation,
            resolved.data.split_seed,
        )?;
        if split.train.len() < resolved.train.batch_size {
            let (batch, images) = (resolved.train.batch_size, split.train.len());
            return Err(DataError::BatchSize { batch, images }.into());
        }
        let trainer = Trainer::new(device, resolved, plan, data)?;
        let position = Position::start(phases[0].stage);
        Ok(Self { phases, split, trainer, position, mean: Tensors::default() })
    }

    fn session(
        self,
        resolved: Resolved,
        data: Arc<Dataset>,
        folder: RunFolder,
        log: Log,
        board: TensorBoard,
        number: Option<u64>,
    ) -> Session<D> {
        let Self { phases, split, trainer, position, mean } = self;
        let groups = weight_decay_groups(&resolved, trainer.ensemble());
        let (resumed, warnings) = (number.map(|number| (number, position)), vec![]);
        Session {
            resolved,
            phases,
            data,
            split,
            folder,
            log,
            board,
            trainer,
            groups,
            position,
            number,
            kept: position,
            resumed,
            warnings,
            statistics: Statistics::default(),
            mean,
        }
    }
}

/// Warnings about what resuming found.
fn warnings(loaded: &Option<Loaded>, cut: Cut) -> Vec<String> {
    let mut all: Vec<String> =
        loaded.iter().flat_map(|loaded| &loaded.warnings).map(ToString::to_string).collect();
    if cut.missing > 0 {
        all.push(format!("log.jsonl is {} bytes shorter than the checkpoint states", cut.missing));
    }
    all
}
