//! Completes a recipe: fills in defaults, parses names, and checks everything that needs no images
//! and no device, including whether the budget is large enough for a plan.
//!
//! Defaults are the paper's CIFAR recipe, except where other settings did better here
//! (`docs/reproduction.md`). They depend on five facts:
//!
//! - the data set: cutout on CIFAR, except for ensembles of equal members, whose published rivals
//!   use none;
//! - different architectures among the members: four depth bins, batch norm over the whole batch,
//!   last milestone at 80% (the paper's appendix on heterogeneous ensembles);
//! - a single member: one late milestone and stochastic weight averaging instead of three
//!   milestones;
//! - the length of training: short runs search and refine after a share of the epochs;
//! - a budget too small for templates as large as layers: grid tiling with its scale, at least
//!   three templates per set, weight decay on coefficients, and a shared classifier.

mod images;
mod training;

use std::fmt::Display;
use std::num::ParseFloatError;

use superweight_plan::arch::{ArchError, ArchName};
use superweight_plan::{
    Assignment, Clustering, PlanError, PlanRequest, SearchSettings, SharedRoles, Tiling,
    TilingChoice,
};

use super::error::{Place, RecipeError};
use super::file::{CountOrText, PlanTable, Recipe};
use super::keys::{KEYS, Key};
use super::resolved::{PlanSettings, RefineSettings, Resolved, SearchPhase};
use super::strategy::{Similarity, Strategy};
use crate::fs::check_name;
use crate::model::ensemble::ParameterKind;
use crate::model::member_schedule;

/// Number of epochs from which search and refinement have the paper's length.
const LONG: u64 = 200;
const MOST_MEMBERS: usize = 64;

impl Recipe {
    /// Request to the planner, without the settings that depend on its answer.
    pub fn plan_request(&self) -> Result<PlanRequest, RecipeError> {
        Ok(self.open()?.plan_request()?)
    }

    /// All settings that do not depend on the planner's answer.
    fn open(&self) -> Result<Resolved, RecipeError> {
        self.check_given_plan()?;
        let members = self.members()?;
        let heterogeneous = members.windows(2).any(|pair| pair[0] != pair[1]);
        let budget = self.budget.as_ref().map_or("10%".into(), CountOrText::text);
        let strategy = self.strategy.unwrap_or_default();
        let refine = self.refine(strategy)?;
        let refined = refine.as_ref().map_or(0, |refine| refine.epoch);
        let seed =
            self.seed.unwrap_or_else(|| self.seeds.iter().flatten().next().copied().unwrap_or(0));
        Ok(Resolved {
            name: self.name()?,
            budget: budget.parse().map_err(|e| self.wrong("budget", e))?,
            strategy,
            seed,
            seeds: self.seeds(seed)?,
            data: self.data(members.len() > 1 && !heterogeneous)?,
            plan: self.plan(strategy, heterogeneous, seed)?,
            train: self.train(
                &members,
                heterogeneous,
                self.swa_epochs(members.len() == 1, refined)?,
            )?,
            search: self.search(strategy, Tiling::Dense),
            refine,
            validation_every: self.eval.validation_every.unwrap_or(1),
            test: self.eval.test.unwrap_or(true),
            test_every: self.eval.test_every.unwrap_or(0),
            members,
        })
    }

    /// Completes and checks the recipe.
    pub fn resolve(&self) -> Result<Resolved, RecipeError> {
        let mut resolved = self.open()?;
        let tiling = match &resolved.plan.file {
            None => {
                let (tiling, share) = self.settle(&resolved)?;
                resolved.plan = resolved.plan.settled(tiling, share);
                resolved.search = self.search(resolved.strategy, tiling);
                tiling
            }
            // Errors in a given plan are reported when the run starts.
            Some(file) if file.is_file() => {
                resolved.first_plan().map_or(Tiling::Dense, |plan| plan.tiling)
            }
            // A pipe can be read only once, and the run reads it when it starts.
            Some(_) => Tiling::Dense,
        };
        if self.train.weight_decay_on.is_none() && tiling.block().is_some() {
            resolved.train.weight_decay_on.push(ParameterKind::Coefficients);
            resolved.train.weight_decay_on.sort_unstable();
        }
        self.check_together(&resolved)?;
        Ok(resolved)
    }

    fn wrong(&self, key: &'static str, problem: impl Display) -> RecipeError {
        self.source.wrong(key, None, problem.to_string())
    }

    /// A given plan must be the only statement about sharing. A plan from the command line replaces
    /// what the file says.
    fn check_given_plan(&self) -> Result<(), RecipeError> {
        if self.plan.file.is_none() {
            return Ok(());
        }
        let place = |key: &str| self.source.place(key, None);
        let in_file = matches!(place("plan.file"), Place::File { .. });
        // A plan has a reserve of its own; complete recipes of runs hold the default.
        let reserved = self.refine.reserve.is_some_and(|reserve| reserve != 1.0);
        let of_plan = |key: &&Key| match key.path {
            "refine.reserve" => reserved,
            path => path.starts_with("plan.") || path.starts_with("search."),
        };
        let beside = |key: &&Key| match place(key.path) {
            Place::Flag(_) => true,
            Place::File { .. } => in_file,
            Place::Default { .. } => false,
        };
        let mut others =
            KEYS.iter().filter(|key| key.path != "plan.file").filter(of_plan).filter(beside);
        match others.next() {
            Some(key) => {
                Err(self.wrong(key.path, "plan.file replaces this key: leave one of them out"))
            }
            None => Ok(()),
        }
    }

    fn name(&self) -> Result<String, RecipeError> {
        let name = self.name.clone().unwrap_or_else(|| self.source.stem());
        if check_name(&name).is_err() {
            return Err(self.wrong("name", format!("'{name}' cannot name a folder")));
        }
        Ok(name)
    }

    fn members(&self) -> Result<Vec<ArchName>, RecipeError> {
        let Some(names) = &self.members else {
            return Ok(vec!["wrn-28-10".parse().expect("the default is a network")]);
        };
        if names.is_empty() || names.len() > MOST_MEMBERS {
            return Err(self
                .wrong("members", format!("there are {}, not 1 to {MOST_MEMBERS}", names.len())));
        }
        let parse = |(i, name): (usize, &String)| {
            name.parse().map_err(|error: ArchError| {
                self.source.wrong("members", Some(i), error.to_string())
            })
        };
        names.iter().enumerate().map(parse).collect()
    }

    fn seeds(&self, seed: u64) -> Result<Vec<u64>, RecipeError> {
        let seeds = self.seeds.clone().unwrap_or_else(|| vec![seed]);
        let mut once = seeds.clone();
        once.sort_unstable();
        once.dedup();
        match seeds.len() {
            0 => Err(self.wrong("seeds", "the list is empty: name at least one seed")),
            n if n > once.len() => Err(self.wrong("seeds", "a seed is there twice")),
            _ => Ok(seeds),
        }
    }

    fn plan(
        &self,
        strategy: Strategy,
        heterogeneous: bool,
        seed: u64,
    ) -> Result<PlanSettings, RecipeError> {
        let file = self.plan.file.as_deref().map(|file| self.source.beside(file));
        let table = if file.is_some() { &PlanTable::default() } else { &self.plan };
        let clusters = match &table.clusters {
            Some(text) => text.parse().map_err(|error| self.wrong("plan.clusters", error))?,
            None => strategy.method().start.clusters(heterogeneous, seed),
        };
        let unshared = matches!(clusters, Clustering::Dense | Clustering::PerLayer);
        if unshared && strategy.method().search.is_some() {
            let word = strategy.word();
            let problem = format!(
                "strategy {word} searches among layers that share, but with these clusters no layers share; \
                 use no-search"
            );
            return Err(self.wrong("plan.clusters", problem));
        }
        let tiling = match table.tiling.as_deref() {
            Some("nested") => TilingChoice::Nested,
            Some("grid") => TilingChoice::Grid,
            Some("kronecker") => TilingChoice::Kronecker,
            Some("stretched") => TilingChoice::Stretched,
            Some("rank-one") => TilingChoice::RankOne,
            _ => TilingChoice::Auto,
        };
        let compared = strategy.method().search.map(|(similarity, _)| similarity);
        let refused = match (tiling, compared) {
            (TilingChoice::Stretched, Some(Similarity::Coefficient)) => None,
            (TilingChoice::Stretched, Some(_)) => Some((
                "compares layers on their common corner, and templates in a bank have none",
                "no-search, depth-binned, random or coefficient-clustering",
            )),
            (TilingChoice::RankOne, Some(_)) => Some((
                "searches for layers that share, but with rank-one tiling all layers of one shape share",
                "no-search",
            )),
            _ => None,
        };
        if let Some((why, others)) = refused {
            let of_tiling = "auto, nested, grid, kronecker";
            return Err(RecipeError::Value {
                place: self.source.place("plan.tiling", None),
                key: "plan.tiling",
                problem: format!("strategy = \"{}\" {why}", strategy.word()),
                allowed: format!(
                    "strategy = {others} with this tiling, or plan.tiling = {of_tiling}"
                ),
            });
        }
        let block = match table.block.as_ref().map(CountOrText::text).as_deref() {
            None | Some("auto") => None,
            Some(text) => {
                let block = text.parse().ok().filter(|block| (1..=4096).contains(block));
                Some(block.ok_or_else(|| {
                    self.wrong("plan.block", format!("'{text}' is not the side of a block"))
                })?)
            }
        };
        let ends = [
            ("plan.share_stem", table.share_stem),
            ("plan.share_classifier", table.share_classifier),
        ];
        if let Some((key, _)) = ends.iter().find(|(_, share)| *share == Some(true))
            && clusters == Clustering::Dense
        {
            return Err(self.wrong(key, "with plan.clusters = \"dense\" no layer shares"));
        }
        let share = SharedRoles {
            stem: table.share_stem.unwrap_or(false),
            classifier: table.share_classifier,
        };
        // Banks have no blocks.
        let block = block.filter(|_| !tiling.has_banks());
        Ok(PlanSettings { file, clusters, tiling, block, scale: table.scale, share })
    }

    fn epochs(&self) -> u64 {
        self.train.epochs.unwrap_or(LONG)
    }

    /// A count as given, or a share of the whole, rounded down; 0 without a value.
    fn count_or_share(
        &self,
        key: &'static str,
        value: Option<&CountOrText>,
        whole: u64,
        of: &str,
    ) -> Result<u64, RecipeError> {
        let text = value.map_or("0".to_owned(), CountOrText::text);
        let wrong = |what: &str| Err(self.wrong(key, format!("'{text}' is {what}")));
        match percent(&text) {
            None => {
                text.parse().or_else(|_| wrong(&format!("neither a number of {of} nor a share")))
            }
            Some(Ok(share)) if (0.0..=100.0).contains(&share) => {
                Ok((share * whole as f64 / 100.0) as u64)
            }
            Some(_) => wrong("not a share between 0% and 100%"),
        }
    }

    fn search(&self, strategy: Strategy, tiling: Tiling) -> Option<SearchPhase> {
        if self.plan.file.is_some() {
            return None;
        }
        let (similarity, coefficients) = strategy.method().search?;
        let table = &self.search;
        let usual = SearchSettings::default_for(tiling);
        let epochs = match similarity {
            Similarity::Coefficient => 15,
            _ => 20,
        };
        Some(SearchPhase {
            epochs: table.epochs.unwrap_or_else(|| short(epochs, 10, self.epochs())),
            lr: table.lr.or(self.train.lr).unwrap_or(0.1),
            similarity,
            coefficients,
            settings: SearchSettings {
                tau: table.tau.unwrap_or(usual.tau),
                min_templates: table.min_templates.map_or(usual.min_templates, |n| n as usize),
                assignment: table.algorithm.unwrap_or(Assignment::Merge),
            },
            batches: table.batches.filter(|&batches| batches > 0),
            clusters: table.clusters.unwrap_or(4) as usize,
        })
    }

    fn refine(&self, strategy: Strategy) -> Result<Option<RefineSettings>, RecipeError> {
        if !strategy.method().refine {
            return Ok(None);
        }
        let table = &self.refine;
        let epoch = table.epoch.unwrap_or_else(|| short(10, 5, self.epochs()));
        if epoch > self.epochs() {
            let problem = format!("epoch {epoch} does not come in a training of {}", self.epochs());
            return Err(self.wrong("refine.epoch", problem));
        }
        let (beta, reserve) = (table.beta.unwrap_or(0.9), table.reserve.unwrap_or(1.0));
        Ok(Some(RefineSettings { epoch, beta, reserve, reinit: table.reinit.unwrap_or(false) }))
    }

    /// Checks that involve several keys.
    fn check_together(&self, resolved: &Resolved) -> Result<(), RecipeError> {
        let (_, set) = self.set()?;
        let (left, batch) = (set.train - resolved.data.validation, resolved.train.batch_size);
        if batch > left {
            return Err(self.wrong(
                "train.batch_size",
                format!("{batch} is more than the {left} training images: choose at most {left}"),
            ));
        }
        let (members, members_per_step) = (resolved.members.len(), resolved.train.members_per_step);
        let (block, steps) =
            (member_schedule::steps_per_block(members, members_per_step), (left / batch) as u64);
        if steps < block {
            let problem = format!(
                "with {members_per_step} of {members} members per step it takes {block} steps to train every member, \
                 but an epoch has {steps}: raise train.members_per_step, or lower data.validation or \
                 train.batch_size"
            );
            return Err(self.wrong("train.members_per_step", problem));
        }
        let (swa_epochs, epochs) = (resolved.train.swa_epochs, resolved.train.epochs);
        let refined = resolved.refine.as_ref().map_or(0, |refine| refine.epoch);
        if swa_epochs > epochs - refined {
            let problem = match refined {
                _ if swa_epochs > epochs => {
                    format!("{swa_epochs} epochs of averaging in a training of {epochs}")
                }
                _ => format!(
                    "the last {swa_epochs} of {epochs} epochs start before refinement (refine.epoch = {refined})"
                ),
            };
            return Err(self.wrong("train.swa_epochs", problem));
        }
        if let Some(batches) = resolved.search.as_ref().and_then(|search| search.batches) {
            // The batches may end one block of steps and start another, without a whole one.
            let (least, most) = (2 * block - 1, steps);
            let problem = match batches {
                _ if batches > most => {
                    Some(format!("{batches} is more than the {most} steps of an epoch"))
                }
                _ if batches < least && batches < most => Some(format!(
                    "{batches} steps may not train all {members} members (train.members_per_step = {members_per_step}): \
                     choose at least {}, or leave the key out for the whole epoch",
                    least.min(most)
                )),
                _ => None,
            };
            if let Some(problem) = problem {
                return Err(self.wrong("search.batches", problem));
            }
        }
        Ok(())
    }

    /// Tiling of the first plan, and whether stem and classifier share. Fails if the budget is too
    /// small.
    fn settle(&self, resolved: &Resolved) -> Result<(Tiling, SharedRoles), RecipeError> {
        let request = resolved.plan_request().map_err(|error| self.wrong("members", error))?;
        let budget = request.budget.unwrap_or(u64::MAX);
        let survey = request.survey().map_err(|error| self.wrong("members", error))?;
        if survey.min_budget > budget {
            let (needed, tiling) = (survey.min_budget, survey.min_budget_tiling.to_string());
            return Err(self.wrong("budget", PlanError::BudgetTooSmall { budget, needed, tiling }));
        }
        Ok((survey.tiling, survey.shared_roles))
    }
}

/// As in the paper, or a share of a short training, at least one.
fn short(paper: u64, percent: u64, epochs: u64) -> u64 {
    if epochs >= LONG { paper } else { ((epochs * percent + 50) / 100).clamp(1, paper) }
}

/// "30%": the number, or what it is not; none where it is no share.
fn percent(text: &str) -> Option<Result<f64, ParseFloatError>> {
    text.strip_suffix('%').map(|share| share.trim().parse())
}

#[cfg(test)]
mod tests;
