//! The complete recipe: every default filled in. A run uses this form and keeps it as
//! `resolved.toml`.
//!
//! [`Resolved::to_toml`] writes every key that takes effect. Loading that file gives the same
//! value.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use superweight_plan::arch::{ArchName, ImageShape};
use superweight_plan::number::with_commas;
use superweight_plan::{
    Budget, Clustering, Member, PlanError, PlanRequest, Scale, SearchSettings, SharedRoles,
    SharingPlan, Tiling, TilingChoice,
};

use super::error::RecipeError;
use super::file::{
    CountOrText, Crop, DataTable, EvalTable, PlanTable, Precision, Recipe, RefineTable,
    ScheduleWord, SearchTable, TrainTable,
};
use super::schedule::Schedule;
use super::strategy::{Alpha, Similarity, Strategy};
use crate::data;
use crate::data::DataError;
use crate::data::{Augment, Dataset, Description, OwnSet};
use crate::fs::read_at_most;
use crate::model::ensemble::ParameterKind;

/// Largest plan file in bytes. A plan of hundreds of members has a few dozen megabytes.
pub const LARGEST_PLAN: u64 = 1 << 28;

/// File name of a given plan beside `resolved.toml`: the plan that the run started from.
pub const PLAN: &str = "given.json";

/// The complete recipe of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// Name of the run and of its folder.
    pub name: String,
    /// Member networks.
    pub members: Vec<ArchName>,
    /// Parameter budget.
    pub budget: Budget,
    /// How the run decides what is shared.
    pub strategy: Strategy,
    /// Seed of every random choice of the run.
    pub seed: u64,
    /// Seeds of all runs that a table row averages.
    pub seeds: Vec<u64>,
    /// Data set, validation split and augmentation.
    pub data: DataSettings,
    /// Sharing at the start: clusters, tiling, scale, or a plan file.
    pub plan: PlanSettings,
    /// Training settings.
    pub train: TrainSettings,
    /// Search of clusters; `None` for strategies without one.
    pub search: Option<SearchPhase>,
    /// Refinement of coefficients; `None` for strategies without it.
    pub refine: Option<RefineSettings>,
    /// Epochs between evaluations on the validation images. The last epoch of a phase is always
    /// evaluated.
    pub validation_every: u64,
    /// Whether the run evaluates on the test images. It must not while settings are being chosen.
    pub test: bool,
    /// Epochs between evaluations on the test images; 0 for the end only.
    pub test_every: u64,
}

/// Data set, validation split and augmentation of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSettings {
    /// Name of the data set: one that [`data::find`](crate::data::find) knows, a packed one, or
    /// `imagenet`.
    pub name: String,
    /// Description of a packed data set, which the run keeps; `None` for known data sets.
    pub own: Option<Arc<OwnSet>>,
    /// Channels, height and width of every image.
    pub shape: ImageShape,
    /// Number of classes.
    pub classes: usize,
    /// Number of training images reserved for validation.
    pub validation: usize,
    /// Seed of the validation split.
    pub split_seed: u64,
    /// How training images are cropped.
    pub crop: Crop,
    /// Augmentation of training images.
    pub augment: Augment,
}

impl DataSettings {
    /// Description of the data set. Works without its images on this machine.
    pub fn description(&self) -> Result<Description, DataError> {
        match &self.own {
            Some(own) => Ok(own.description.clone()),
            None => Ok(data::find(&self.name)?.describe()),
        }
    }

    /// Whether the data set is read from the data folder, and not from the program itself.
    pub fn needs_folder(&self) -> bool {
        self.own.is_some()
            || data::find(&self.name).map_or(true, |entry| entry.layout != data::Layout::Embedded)
    }

    /// Opens the data set in the data folder. A packed set must be the one that the recipe
    /// describes.
    pub fn open(&self, folder: &Path) -> Result<Dataset, DataError> {
        let Some(own) = &self.own else { return Dataset::open(&self.name, folder) };
        let (name, folder) = (self.name.clone(), folder.to_owned());
        match OwnSet::find(&name, &folder)? {
            None => Err(DataError::NotPacked { name, folder }),
            Some(found) if found != **own => Err(DataError::OtherSet { name, folder }),
            Some(found) => found.read(&folder),
        }
    }
}

/// Sharing at the start of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanSettings {
    /// Plan file that replaces all settings below.
    pub file: Option<PathBuf>,
    /// Starting clusters.
    pub clusters: Clustering,
    /// Tiling: what a template is.
    pub tiling: TilingChoice,
    /// Side of a block; `None` leaves it to the planner.
    pub block: Option<usize>,
    /// Rule for the initial standard deviation of templates and coefficients; it also sets how fast
    /// they learn.
    pub scale: Option<Scale>,
    /// Whether stem and classifier share.
    pub share: SharedRoles,
}

impl PlanSettings {
    /// These settings with the planner's choices filled in.
    pub fn settled(self, tiling: Tiling, share: SharedRoles) -> Self {
        Self {
            tiling: match tiling {
                Tiling::Dense => self.tiling,
                Tiling::Nested => TilingChoice::Nested,
                Tiling::Grid { .. } => TilingChoice::Grid,
                Tiling::Kronecker { .. } => TilingChoice::Kronecker,
                Tiling::Stretched => TilingChoice::Stretched,
                Tiling::RankOne => TilingChoice::RankOne,
            },
            block: tiling.block().or(self.block),
            scale: Some(self.scale.unwrap_or(Scale::default_for(tiling))),
            share,
            ..self
        }
    }

    /// Table with every key that takes effect.
    fn to_table(&self) -> PlanTable {
        if let Some(file) = &self.file {
            return PlanTable { file: Some(file.display().to_string()), ..PlanTable::default() };
        }
        let auto = || CountOrText::Text("auto".into());
        PlanTable {
            file: None,
            clusters: Some(self.clusters.to_string()),
            tiling: Some(self.tiling.to_string()),
            block: (!self.tiling.has_banks())
                .then(|| self.block.map_or_else(auto, |block| CountOrText::Count(block as u64))),
            scale: self.scale,
            share_stem: Some(self.share.stem),
            share_classifier: self.share.classifier,
        }
    }
}

/// Training settings.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainSettings {
    /// Epochs of training; epochs of the search are not counted.
    pub epochs: u64,
    /// Images per step.
    pub batch_size: usize,
    /// Copies of each image in a step for every MIMO subnetwork; 1 for other networks.
    pub batch_repetitions: usize,
    /// Members that each step trains: all, or the largest, the smallest and some of the others.
    pub members_per_step: usize,
    /// Whether only the largest member learns from labels, and the others from its probabilities.
    pub distillation: bool,
    /// Rows per group of batch-norm statistics; divides [`TrainSettings::rows`].
    pub bn_batch_size: usize,
    /// Momentum of SGD.
    pub momentum: f64,
    /// Whether momentum is Nesterov's.
    pub nesterov: bool,
    /// Learning-rate schedule.
    pub schedule: Schedule,
    /// Weight decay λ.
    pub weight_decay: f64,
    /// Kinds of parameters that weight decay applies to, sorted.
    pub weight_decay_on: Vec<ParameterKind>,
    /// Factor on the weight decay of templates, patterns and coefficients.
    pub shared_weight_decay_mult: f64,
    /// Epochs of stochastic weight averaging at the end; 0 keeps the parameters of the last step.
    pub swa_epochs: u64,
    /// Label smoothing: share of the target spread over all classes.
    pub label_smoothing: f64,
    /// Factor on the learning rate of templates.
    pub template_lr_mult: f64,
    /// Factor on the learning rate of coefficients.
    pub coefficient_lr_mult: f64,
    /// Precision of activations and composed weights.
    pub precision: Precision,
}

/// Settings of the search for clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchPhase {
    /// Epochs of training before layers are compared.
    pub epochs: u64,
    /// Learning rate of the search, constant.
    pub lr: f64,
    /// Similarity measure.
    pub similarity: Similarity,
    /// Owners of coefficients during the search.
    pub coefficients: Alpha,
    /// τ, smallest number of templates, version of Algorithm 1.
    pub settings: SearchSettings,
    /// Number of last batches whose gradients are summed; `None` for the whole last epoch.
    pub batches: Option<u64>,
    /// Number of clusters k for coefficient clustering.
    pub clusters: usize,
}

/// Settings of refinement.
#[derive(Clone, Debug, PartialEq)]
pub struct RefineSettings {
    /// E: epochs of hard sharing before coefficients split.
    pub epoch: u64,
    /// β: layers with a similarity above it keep one set of coefficients.
    pub beta: f64,
    /// Share of all per-layer coefficients that the budget reserves for the split.
    pub reserve: f64,
    /// Whether all parameters are reinitialised after the split, so that no group starts as a copy
    /// of another.
    pub reinit: bool,
}

impl TrainSettings {
    /// Rows of a batch: images times their copies for MIMO.
    pub fn rows(&self) -> usize {
        self.batch_size * self.batch_repetitions
    }
}

impl Resolved {
    /// Whether members have different architectures.
    pub fn heterogeneous(&self) -> bool {
        self.members.windows(2).any(|pair| pair[0] != pair[1])
    }

    /// Request for the first plan: that of the search, or of training for strategies without a
    /// search.
    pub fn plan_request(&self) -> Result<PlanRequest, PlanError> {
        let start = self
            .search
            .as_ref()
            .map_or(self.strategy.method().coefficients, |search| search.coefficients);
        let max_templates =
            self.search.as_ref().and_then(|search| search.similarity.max_templates());
        Ok(PlanRequest { max_templates, ..self.request(start)? })
    }

    /// Request for the plan of training, which [`superweight_plan::search`] completes with
    /// clusters.
    pub fn train_request(&self) -> Result<PlanRequest, PlanError> {
        self.request(self.strategy.method().coefficients)
    }

    /// First plan of the run: from the plan file where the recipe names one, else from the planner.
    pub fn first_plan(&self) -> Result<SharingPlan, RecipeError> {
        let request = self.plan_request()?;
        let Some(file) = &self.plan.file else { return Ok(request.plan()?) };
        let wrong = |problem: String| RecipeError::PlanFile { file: file.clone(), problem };
        let text = read_at_most(file, LARGEST_PLAN).map_err(|error| wrong(error.to_string()))?;
        let mut plan = SharingPlan::from_json(&text).map_err(|error| wrong(error.to_string()))?;
        if let Some(why) = self.contradiction(&plan) {
            return Err(wrong(why));
        }
        let (total, budget) = (plan.bill.total(), request.budget.unwrap_or(u64::MAX));
        if total > budget {
            let [total, budget] = [total, budget].map(with_commas);
            let problem = format!(
                "it has {total} parameters, the recipe's budget is {budget}: raise the budget, or make a new plan"
            );
            return Err(wrong(problem));
        }
        plan.budget = Some(budget);
        Ok(plan)
    }

    /// Form for the run's folder, with the given plan beside it.
    pub fn kept(&self) -> Self {
        let mut kept = self.clone();
        kept.plan.file = kept.plan.file.map(|_| PLAN.into());
        kept
    }

    /// Difference between a plan and this recipe in networks, images or classes, if there is one.
    pub fn contradiction(&self, plan: &SharingPlan) -> Option<String> {
        let (wanted, planned) = (self.planned_members(), &plan.members);
        if wanted.len() != planned.len() {
            return Some(format!(
                "the recipe has {} members, the plan {}",
                wanted.len(),
                planned.len()
            ));
        }
        let describe = |Member { architecture, input, classes }: &Member| {
            let ImageShape { channels, height, width } = input;
            format!("{architecture} for {channels}×{height}×{width} images of {classes} classes")
        };
        let (n, (wanted, planned)) =
            wanted.iter().zip(planned).enumerate().find(|(_, (a, b))| a != b)?;
        Some(format!(
            "member {n} is {} in the recipe, {} in the plan",
            describe(wanted),
            describe(planned)
        ))
    }

    fn planned_members(&self) -> Vec<Member> {
        let DataSettings { shape: input, classes, .. } = self.data;
        self.members
            .iter()
            .map(|name| Member { architecture: name.clone(), input, classes })
            .collect()
    }

    /// Request whose reserve covers per-layer coefficients, whether they come now or later. So the
    /// tiling, which is decided once, fits both.
    fn request(&self, coefficients: Alpha) -> Result<PlanRequest, PlanError> {
        let later_own = self.strategy.method().coefficients == Alpha::Own;
        let reserve =
            self.refine.as_ref().map_or(if later_own { 1.0 } else { 0.0 }, |refine| refine.reserve);
        let mut request = PlanRequest {
            clusters: self.plan.clusters.clone(),
            tiling: self.plan.tiling,
            block: self.plan.block,
            scale: self.plan.scale,
            coefficients: coefficients.into(),
            reserve,
            shared_roles: self.plan.share,
            ..PlanRequest::new(self.planned_members(), None)
        };
        request.budget = Some(self.budget.resolve(request.dense_total()?));
        Ok(request)
    }

    /// Learning-rate schedule of the search. It is constant, except for coefficient clustering:
    /// there the learning rate falls by a factor of 10 after 8/15 and 13/15 of the epochs, as for
    /// Shapeshifter Networks.
    pub fn search_schedule(&self) -> Option<Schedule> {
        let search = self.search.as_ref()?;
        Some(match search.similarity {
            Similarity::Coefficient => {
                let mut at = vec![search.epochs * 8 / 15, search.epochs * 13 / 15];
                at.retain(|&epoch| epoch > 0);
                Schedule::Multistep { lr: search.lr, gamma: 0.1, milestones: at, warmup_epochs: 0 }
            }
            Similarity::Gradient | Similarity::Weight => {
                Schedule::Constant { lr: search.lr, warmup_epochs: 0 }
            }
        })
    }

    /// Complete recipe as TOML; loading it gives the same value.
    pub fn to_toml(&self) -> String {
        let text = toml::to_string(&self.to_recipe()).expect("names, numbers and lists are TOML");
        format!("# The complete recipe of this run, with every default filled in.\n{text}")
    }

    /// Complete recipe, without the phases that the strategy does not have.
    pub fn to_recipe(&self) -> Recipe {
        let Self { data, train, .. } = self;
        let mut written = TrainTable {
            epochs: Some(train.epochs),
            batch_size: Some(train.batch_size as u64),
            batch_repetitions: (self.members[0].heads() > 1)
                .then_some(train.batch_repetitions as u64),
            // Left out where it is the default, so that `members` can be overridden.
            members_per_step: (train.members_per_step < self.members.len())
                .then_some(train.members_per_step as u64),
            distillation: train.distillation.then_some(true),
            bn_batch_size: Some(train.bn_batch_size as u64),
            momentum: Some(train.momentum),
            nesterov: Some(train.nesterov),
            weight_decay: Some(train.weight_decay),
            weight_decay_on: Some(train.weight_decay_on.clone()),
            shared_weight_decay_mult: Some(train.shared_weight_decay_mult),
            swa_epochs: Some(CountOrText::Count(train.swa_epochs)),
            label_smoothing: Some(train.label_smoothing),
            template_lr_mult: Some(train.template_lr_mult),
            coefficient_lr_mult: Some(train.coefficient_lr_mult),
            precision: Some(train.precision),
            ..TrainTable::default()
        };
        match &train.schedule {
            Schedule::Multistep { lr, gamma, milestones, warmup_epochs } => {
                written.schedule = Some(ScheduleWord::Multistep);
                written.lr = Some(*lr);
                written.gamma = Some(*gamma);
                written.milestones =
                    Some(milestones.iter().map(|&epoch| CountOrText::Count(epoch)).collect());
                written.warmup_epochs = Some(*warmup_epochs);
            }
            Schedule::Constant { lr, warmup_epochs } => {
                written.schedule = Some(ScheduleWord::Constant);
                (written.lr, written.warmup_epochs) = (Some(*lr), Some(*warmup_epochs));
            }
            Schedule::OneCycle { lr, pct_start, div_factor, final_div_factor } => {
                written.schedule = Some(ScheduleWord::OneCycle);
                (written.lr, written.pct_start) = (Some(*lr), Some(*pct_start));
                (written.div_factor, written.final_div_factor) =
                    (Some(*div_factor), Some(*final_div_factor));
            }
        }
        Recipe {
            name: Some(self.name.clone()),
            members: Some(self.members.iter().map(ToString::to_string).collect()),
            budget: Some(CountOrText::Text(budget_text(self.budget))),
            strategy: Some(self.strategy),
            seed: Some(self.seed),
            seeds: Some(self.seeds.clone()),
            data: DataTable {
                name: Some(data.name.clone()),
                digest: data.own.as_ref().map(|own| own.digest()),
                validation: Some(CountOrText::Count(data.validation as u64)),
                split_seed: Some(data.split_seed),
                crop: Some(data.crop),
                min_crop_scale: data.augment.stretch,
                padding: Some(data.augment.pad as u64),
                flip: Some(data.augment.flip),
                cutout: Some(data.augment.cutout as u64),
            },
            plan: self.plan.to_table(),
            train: written,
            search: self.search.as_ref().map_or_else(SearchTable::default, |search| SearchTable {
                epochs: Some(search.epochs),
                lr: Some(search.lr),
                tau: Some(search.settings.tau),
                min_templates: Some(search.settings.min_templates as u64),
                algorithm: Some(search.settings.assignment),
                batches: Some(search.batches.unwrap_or(0)),
                clusters: Some(search.clusters as u64),
            }),
            refine: self.refine.as_ref().map_or_else(RefineTable::default, |refine| RefineTable {
                epoch: Some(refine.epoch),
                beta: Some(refine.beta),
                reserve: Some(refine.reserve),
                reinit: Some(refine.reinit),
            }),
            eval: EvalTable {
                validation_every: Some(self.validation_every),
                test: Some(self.test),
                test_every: Some(self.test_every),
            },
            source: Default::default(),
        }
    }
}

/// A budget as text; [`Budget`] parses it back to the same value.
fn budget_text(budget: Budget) -> String {
    match budget {
        Budget::Parameters(count) => count.to_string(),
        Budget::Fraction(mantissa, denominator) => {
            // The denominator is 100 times a power of ten: that many decimals.
            let scale = denominator / 100;
            let decimals = scale.ilog10() as usize;
            let fraction = if decimals == 0 {
                String::new()
            } else {
                format!(".{:0decimals$}", mantissa % scale)
            };
            format!("{}{fraction}%", mantissa / scale)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_print_as_they_parse() {
        for text in
            ["10%", "0.5%", "10.0%", "12.345678%", "0.000001%", "200%", "36.5M", "365368", "7G"]
        {
            let budget: Budget = text.parse().unwrap();
            assert_eq!(budget_text(budget).parse::<Budget>().unwrap(), budget, "{text}");
        }
        assert_eq!(budget_text("0.50%".parse().unwrap()), "0.50%");
    }
}
