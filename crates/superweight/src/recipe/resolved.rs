//! A recipe with nothing left open: what a run is made from, and what `resolved.toml` keeps.
//!
//! [`Resolved::to_toml`] writes every key that has a say; loading that file gives the same value.

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

/// Plans of hundreds of members are a few dozen megabytes; what is larger is no plan.
pub const LARGEST_PLAN: u64 = 1 << 28;

/// The plan beside the `resolved.toml` of a run that was given one: what it began with, not what it came to.
pub const PLAN: &str = "given.json";

/// Everything that decides a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// Of the run and its folder.
    pub name: String,
    /// The networks.
    pub members: Vec<ArchName>,
    /// Every trainable number counts against it.
    pub budget: Budget,
    /// How sharing is decided.
    pub strategy: Strategy,
    /// Every random choice of the run comes from it.
    pub seed: u64,
    /// Seeds of all runs that the row is the mean of.
    pub seeds: Vec<u64>,
    /// Images.
    pub data: DataSettings,
    /// Where sharing starts.
    pub plan: PlanSettings,
    /// Training.
    pub train: TrainSettings,
    /// Search of clusters, where the strategy has one.
    pub search: Option<SearchPhase>,
    /// Refinement of coefficients, where the strategy has it.
    pub refine: Option<RefineSettings>,
    /// Epochs between looks at the images held out; the last epoch of a phase is always followed by one.
    pub validation_every: u64,
    /// Whether the test set is looked at: not where settings are being chosen.
    pub test: bool,
    /// Epochs between looks at the test set; 0 for the end only.
    pub test_every: u64,
}

/// Which images, and what happens to them.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSettings {
    /// As [`data::find`](crate::data::find) knows it, a set of the user's own, or `imagenet`.
    pub name: String,
    /// What it is, where it is one of the user's own: the run keeps it.
    pub own: Option<Arc<OwnSet>>,
    /// Of every image.
    pub shape: ImageShape,
    /// Told apart.
    pub classes: usize,
    /// Training images held out.
    pub validation: usize,
    /// Decides which.
    pub split_seed: u64,
    /// How training images are cut.
    pub crop: Crop,
    /// What else happens to them.
    pub augment: Augment,
}

impl DataSettings {
    /// What the set is, whether or not its images are here.
    pub fn description(&self) -> Result<Description, DataError> {
        match &self.own {
            Some(own) => Ok(own.description.clone()),
            None => Ok(data::find(&self.name)?.describe()),
        }
    }

    /// Its images, from the data folder: those that were described, or none.
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

/// What the planner is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanSettings {
    /// A plan that is there already; then nothing below has a say.
    pub file: Option<PathBuf>,
    /// Starting clusters.
    pub clusters: Clustering,
    /// What templates are.
    pub tiling: TilingChoice,
    /// Side of a grid's blocks, where it is not the planner's choice.
    pub block: Option<usize>,
    /// What numbers start with, and so how fast they learn.
    pub scale: Option<Scale>,
    /// Whether stem and classifier take part.
    pub share: SharedRoles,
}

impl PlanSettings {
    /// With nothing left open.
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

    /// Every key that has a say.
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

/// How training goes.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainSettings {
    /// Those of the search do not count.
    pub epochs: u64,
    /// Images of a step.
    pub batch_size: usize,
    /// How often each of them comes in a step, for every head: 1 but for networks of several heads.
    pub batch_repetitions: usize,
    /// Members that a step trains: all, or the largest, the smallest and some of those between.
    pub members_per_step: usize,
    /// Whether members learn from the probabilities of the largest, which alone learns from labels.
    pub distillation: bool,
    /// Images that batch norm takes its statistics over, or rows of several; divides the batch with its repeats.
    pub bn_batch_size: usize,
    /// Of SGD.
    pub momentum: f64,
    /// Nesterov's variant of it.
    pub nesterov: bool,
    /// Learning rates.
    pub schedule: Schedule,
    /// Weight decay.
    pub weight_decay: f64,
    /// What is decayed, sorted.
    pub weight_decay_on: Vec<ParameterKind>,
    /// Decay of templates, patterns and coefficients over the decay of everything else.
    pub shared_weight_decay_mult: f64,
    /// How many of the last epochs are averaged: what is kept is the mean of the numbers at their ends; 0: those of the last step.
    pub swa_epochs: u64,
    /// Share of the target spread over all classes.
    pub label_smoothing: f64,
    /// Rate of templates over the rate of everything else.
    pub template_lr_mult: f64,
    /// Rate of coefficients over the rate of everything else.
    pub coefficient_lr_mult: f64,
    /// Of activations and composed weights.
    pub precision: Precision,
}

/// How clusters are searched.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchPhase {
    /// Trained before layers are compared.
    pub epochs: u64,
    /// Constant learning rate.
    pub lr: f64,
    /// What is compared.
    pub similarity: Similarity,
    /// Coefficients while searching.
    pub coefficients: Alpha,
    /// τ, templates to keep, reading of Algorithm 1.
    pub settings: SearchSettings,
    /// Last batches whose gradients are summed; none for the whole last epoch.
    pub batches: Option<u64>,
    /// k of coefficient-clustering.
    pub clusters: usize,
}

/// How coefficients are refined.
#[derive(Clone, Debug, PartialEq)]
pub struct RefineSettings {
    /// E: hard-shared epochs before coefficients split.
    pub epoch: u64,
    /// β: layers more alike than this keep the same coefficients.
    pub beta: f64,
    /// Share of every layer's own coefficients that the budget keeps free for splitting.
    pub reserve: f64,
    /// Whether everything starts anew once groups have parted, so that none begins as a copy of another.
    pub reinit: bool,
}

impl TrainSettings {
    /// What a network sees in a step, one after another.
    pub fn rows(&self) -> usize {
        self.batch_size * self.batch_repetitions
    }
}

impl Resolved {
    /// Whether members differ in architecture.
    pub fn heterogeneous(&self) -> bool {
        self.members.windows(2).any(|pair| pair[0] != pair[1])
    }

    /// What the planner is asked for first: the plan of the search where there is one, else of training.
    pub fn plan_request(&self) -> Result<PlanRequest, PlanError> {
        let start = self
            .search
            .as_ref()
            .map_or(self.strategy.method().coefficients, |search| search.coefficients);
        let max_templates =
            self.search.as_ref().and_then(|search| search.similarity.max_templates());
        Ok(PlanRequest { max_templates, ..self.request(start)? })
    }

    /// What [`superweight_plan::search`] is given to make the plan of training from.
    pub fn train_request(&self) -> Result<PlanRequest, PlanError> {
        self.request(self.strategy.method().coefficients)
    }

    /// The plan that a run begins with: that of its file where there is one.
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
                "it has {total} numbers, the recipe's budget is {budget}: raise it, or plan reinit"
            );
            return Err(wrong(problem));
        }
        plan.budget = Some(budget);
        Ok(plan)
    }

    /// As the run's folder keeps it: with the plan beside it.
    pub fn kept(&self) -> Self {
        let mut kept = self.clone();
        kept.plan.file = kept.plan.file.map(|_| PLAN.into());
        kept
    }

    /// In which way a plan is none of this recipe: other networks, images or classes.
    pub fn contradiction(&self, plan: &SharingPlan) -> Option<String> {
        let (asked, planned) = (self.planned_members(), &plan.members);
        if asked.len() != planned.len() {
            return Some(format!(
                "the recipe has {} members, the plan {}",
                asked.len(),
                planned.len()
            ));
        }
        let said = |Member { architecture, input, classes }: &Member| {
            let ImageShape { channels, height, width } = input;
            format!("{architecture} for {channels}×{height}×{width} images of {classes} classes")
        };
        let (n, (asked, planned)) =
            asked.iter().zip(planned).enumerate().find(|(_, (a, b))| a != b)?;
        Some(format!("member {n} is {} in the recipe, {} in the plan", said(asked), said(planned)))
    }

    fn planned_members(&self) -> Vec<Member> {
        let DataSettings { shape: input, classes, .. } = self.data;
        self.members
            .iter()
            .map(|name| Member { architecture: name.clone(), input, classes })
            .collect()
    }

    /// A budget that pays for each layer's own coefficients where they come, now or later: so tiling, decided once,
    /// fits both.
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

    /// Learning rates of the search: constant, but that of Shapeshifter Networks falls by 10 after 8 and 13 of its 15
    /// epochs (of others, after the same shares).
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

    /// A complete file that loads back to the same value.
    pub fn to_toml(&self) -> String {
        let text = toml::to_string(&self.to_recipe()).expect("names, numbers and lists are TOML");
        format!("# Every default filled in: what this run is made from.\n{text}")
    }

    /// As it would be written in full; phases that the strategy does not have are left out.
    pub fn to_recipe(&self) -> Recipe {
        let Self { data, train, .. } = self;
        let mut written = TrainTable {
            epochs: Some(train.epochs),
            batch_size: Some(train.batch_size as u64),
            batch_repetitions: (self.members[0].heads() > 1)
                .then_some(train.batch_repetitions as u64),
            // What nobody asked for is not said: other members may be more or fewer.
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

/// A budget as it is typed: [`Budget`] parses it back to the same.
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
