//! From what was asked to what is run: defaults filled in, names parsed, and everything checked that can be without
//! data or a device, down to whether the budget pays for the plan.
//!
//! Defaults are the CIFAR recipe of the paper, but for what did better here (`docs/notes/reproduction.md`). They
//! depend on five things only: the data set (cutout on CIFAR, but for ensembles of like members, which the paper compares
//! with work that has none), whether the members differ (four depth bins, whole-batch statistics, the last drop at 80%: the
//! paper's appendix on heterogeneous ensembles), whether there is but one (a late drop and the mean of the last epochs instead
//! of three drops), how long training is (short runs search and refine after a share of it), and whether the budget is
//! too small for templates as large as layers (a grid, its scale, three templates a set, decay of coefficients, and a
//! classifier that takes part).

mod images;

use std::fmt::Display;
use std::num::ParseFloatError;

use superweight_plan::arch::{ArchError, ArchName};
use superweight_plan::{
    Assignment, Clustering, PlanError, PlanRequest, SearchSettings, Share, Tiling, TilingChoice,
};

use super::error::{Place, RecipeError};
use super::file::{CountOrText, PlanTable, Precision, Recipe, ScheduleWord};
use super::keys::{KEYS, Key};
use super::resolved::{PlanSettings, RefineSettings, Resolved, SearchPhase, TrainSettings};
use super::strategy::{Similarity, Strategy};
use crate::ensemble::ParameterKind;
use crate::files::names_a_folder;
use crate::schedule::Schedule;
use crate::turns;

/// From this many epochs on, search and refinement take as long as in the paper.
const LONG: u64 = 200;
const MOST_MEMBERS: usize = 64;

impl Recipe {
    /// What the planner is asked: what hangs on its answer is left open.
    pub fn plan_request(&self) -> Result<PlanRequest, RecipeError> {
        Ok(self.open()?.plan_request()?)
    }

    /// Everything that does not hang on the planner's answer.
    fn open(&self) -> Result<Resolved, RecipeError> {
        self.check_given_plan()?;
        let members = self.members()?;
        let heterogeneous = members.windows(2).any(|pair| pair[0] != pair[1]);
        let budget = self.budget.as_ref().map_or("10%".into(), CountOrText::text);
        let strategy = self.strategy.unwrap_or_default();
        let refine = self.refine(strategy)?;
        let refined = refine.as_ref().map_or(0, |refine| refine.epoch);
        let seed = self.seed.unwrap_or_else(|| self.seeds.iter().flatten().next().copied().unwrap_or(0));
        Ok(Resolved {
            name: self.name()?,
            budget: budget.parse().map_err(|e| self.wrong("budget", e))?,
            strategy,
            seed,
            seeds: self.seeds(seed)?,
            data: self.data(members.len() > 1 && !heterogeneous)?,
            plan: self.plan(strategy, heterogeneous, seed)?,
            train: self.train(&members, heterogeneous, self.average(members.len() == 1, refined)?)?,
            search: self.search(strategy, Tiling::Dense),
            refine,
            held_out_every: self.eval.held_out_every.unwrap_or(1),
            test: self.eval.test.unwrap_or(true),
            test_every: self.eval.test_every.unwrap_or(0),
            members,
        })
    }

    /// Everything filled in and checked.
    pub fn resolve(&self) -> Result<Resolved, RecipeError> {
        let mut resolved = self.open()?;
        let tiling = match &resolved.plan.file {
            None => {
                let (tiling, share) = self.settle(&resolved)?;
                resolved.plan = resolved.plan.settled(tiling, share);
                resolved.search = self.search(resolved.strategy, tiling);
                tiling
            }
            // What is wrong with a given plan is said when the run begins.
            Some(file) if file.is_file() => resolved.first_plan().map_or(Tiling::Dense, |plan| plan.tiling),
            // A pipe can be read once, and that is then.
            Some(_) => Tiling::Dense,
        };
        if self.train.decay_on.is_none() && tiling.block().is_some() {
            resolved.train.decay_on.push(ParameterKind::Coefficients);
            resolved.train.decay_on.sort_unstable();
        }
        self.check_together(&resolved)?;
        Ok(resolved)
    }

    fn wrong(&self, key: &'static str, problem: impl Display) -> RecipeError {
        self.source.wrong(key, None, problem.to_string())
    }

    /// Where the plan is given, nothing else may say what is shared; a plan given on the command line goes over what the
    /// file says of it.
    fn check_given_plan(&self) -> Result<(), RecipeError> {
        if self.plan.file.is_none() {
            return Ok(());
        }
        let place = |key: &str| self.source.place(key, None);
        let in_file = matches!(place("plan.file"), Place::File { .. });
        // A plan has its own reserve; runs keep complete recipes, which have the usual one.
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
        let mut others = KEYS.iter().filter(|key| key.path != "plan.file").filter(of_plan).filter(beside);
        match others.next() {
            Some(key) => {
                Err(self
                    .wrong(key.path, "plan.file is the plan, and leaves this nothing to say: leave one out"))
            }
            None => Ok(()),
        }
    }

    fn name(&self) -> Result<String, RecipeError> {
        let name = self.name.clone().unwrap_or_else(|| self.source.stem());
        if !names_a_folder(&name) {
            return Err(self.wrong("name", format!("'{name}' cannot name a folder")));
        }
        Ok(name)
    }

    fn members(&self) -> Result<Vec<ArchName>, RecipeError> {
        let Some(names) = &self.members else {
            return Ok(vec!["wrn-28-10".parse().expect("the default is a network")]);
        };
        if names.is_empty() || names.len() > MOST_MEMBERS {
            return Err(self.wrong("members", format!("there are {}, not 1 to {MOST_MEMBERS}", names.len())));
        }
        let parse = |(i, name): (usize, &String)| {
            name.parse().map_err(|error: ArchError| self.source.wrong("members", Some(i), error.to_string()))
        };
        names.iter().enumerate().map(parse).collect()
    }

    fn seeds(&self, seed: u64) -> Result<Vec<u64>, RecipeError> {
        let seeds = self.seeds.clone().unwrap_or_else(|| vec![seed]);
        let mut once = seeds.clone();
        once.sort_unstable();
        once.dedup();
        match seeds.len() {
            0 => Err(self.wrong("seeds", "the list is empty")),
            n if n > once.len() => Err(self.wrong("seeds", "a seed is there twice")),
            _ => Ok(seeds),
        }
    }

    fn plan(&self, strategy: Strategy, heterogeneous: bool, seed: u64) -> Result<PlanSettings, RecipeError> {
        let file = self.plan.file.as_deref().map(|file| self.source.beside(file));
        let table = if file.is_some() { &PlanTable::default() } else { &self.plan };
        let clusters = match &table.clusters {
            Some(text) => text.parse().map_err(|error| self.wrong("plan.clusters", error))?,
            None => strategy.method().start.clusters(heterogeneous, seed),
        };
        let alone = matches!(clusters, Clustering::Dense | Clustering::PerLayer);
        if alone && strategy.method().search.is_some() {
            let word = strategy.word();
            let problem =
                format!("strategy {word} searches among layers that share, and here none do; use no-search");
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
                "compares layers where they have a corner in common, which templates in a bank have not",
                "no-search, depth-binned, random or coefficient-clustering",
            )),
            (TilingChoice::RankOne, Some(_)) => {
                Some(("searches for layers to share, where here those of one shape do", "no-search"))
            }
            _ => None,
        };
        if let Some((why, others)) = refused {
            let of_tiling = "auto, nested, grid, kronecker";
            return Err(RecipeError::Value {
                place: self.source.place("plan.tiling", None),
                key: "plan.tiling",
                problem: format!("strategy = \"{}\" {why}", strategy.word()),
                allowed: format!("strategy = {others} with this tiling, or plan.tiling = {of_tiling}"),
            });
        }
        let block = match table.block.as_ref().map(CountOrText::text).as_deref() {
            None | Some("auto") => None,
            Some(text) => {
                let block = text.parse().ok().filter(|block| (1..=4096).contains(block));
                Some(
                    block
                        .ok_or_else(|| self.wrong("plan.block", format!("'{text}' is no side of a block")))?,
                )
            }
        };
        let ends = [("plan.share_stem", table.share_stem), ("plan.share_classifier", table.share_classifier)];
        if let Some((key, _)) = ends.iter().find(|(_, share)| *share == Some(true))
            && clusters == Clustering::Dense
        {
            return Err(self.wrong(key, "with plan.clusters = \"dense\" no layer shares"));
        }
        let share = Share { stem: table.share_stem.unwrap_or(false), classifier: table.share_classifier };
        // Banks are not cut into blocks.
        let block = block.filter(|_| !tiling.has_banks());
        Ok(PlanSettings { file, clusters, tiling, block, scale: table.scale, share })
    }

    fn epochs(&self) -> u64 {
        self.train.epochs.unwrap_or(LONG)
    }

    /// How many members a step trains: all, or the largest, the smallest and one more at least.
    fn at_once(&self, members: usize) -> Result<usize, RecipeError> {
        let asked = self.train.at_once.map_or(members, |at_once| at_once as usize);
        let problem = match members {
            _ if asked == members || (3..members).contains(&asked) || self.members_are_of_a_plan() => {
                return Ok(asked);
            }
            0..=3 => format!("a step trains all of so few members ({members}): leave the key out"),
            _ => format!(
                "{asked} of {members} members: a step trains the largest, the smallest and one of those between at \
                 least, so 3 to {}; leave the key out for all of them",
                members - 1
            ),
        };
        Err(self.wrong("train.at_once", problem))
    }

    /// Whether the members are not said, and will be refused for that.
    fn members_are_of_a_plan(&self) -> bool {
        self.members.is_none() && self.plan.file.is_some()
    }

    fn distilled(&self, members: &[ArchName]) -> Result<bool, RecipeError> {
        let problem = match self.train.distilled.unwrap_or(false) {
            false => return Ok(false),
            true if members[0].heads() > 1 => {
                format!(
                    "networks that see several images at once learn from labels alone, {} too: leave the key out",
                    members[0]
                )
            }
            true if members.len() == 1 && !self.members_are_of_a_plan() => {
                "there is one member, and nobody to learn from it: leave the key out".to_owned()
            }
            true => return Ok(true),
        };
        Err(self.wrong("train.distilled", problem))
    }

    /// How often an image comes in a step.
    fn repeats(&self, member: &ArchName) -> Result<u64, RecipeError> {
        match (self.train.repeats, member.heads()) {
            (None, 1) | (Some(1), _) => Ok(1),
            (None, _) => Ok(4),
            (Some(repeats), 1) if !self.members_are_of_a_plan() => {
                let problem = format!(
                    "{repeats}: is for networks that see several images at once (mimo-3-{member}): leave the key out"
                );
                Err(self.wrong("train.repeats", problem))
            }
            (Some(repeats), _) => Ok(repeats),
        }
    }

    fn train(
        &self,
        members: &[ArchName],
        heterogeneous: bool,
        average: u64,
    ) -> Result<TrainSettings, RecipeError> {
        let table = &self.train;
        let (_, set) = self.set()?;
        // Small sets have less than a batch; what is held out was checked.
        let left = (set.train as u64).saturating_sub(self.held_out(set.train)?).max(1);
        let batch = table.batch.unwrap_or(left.min(128));
        let repeats = self.repeats(&members[0])?;
        let rows = batch * repeats;
        let usual = if !heterogeneous && rows.is_multiple_of(64) { 64 } else { rows };
        let bn_batch = table.bn_batch.unwrap_or(usual);
        if bn_batch > rows || !rows.is_multiple_of(bn_batch) {
            let what = match repeats {
                1 => "images".to_owned(),
                _ => format!("rows ({batch} images, {repeats} times)"),
            };
            let problem = format!(
                "batches of {rows} {what} cannot be cut into parts of {bn_batch}: choose what divides {rows}"
            );
            return Err(self.wrong("train.bn_batch", problem));
        }
        let decayed = || {
            use ParameterKind::{BatchNorm, Classifier, Convolutions, Templates};
            vec![Templates, Convolutions, BatchNorm, Classifier]
        };
        let mut decay_on = table.decay_on.clone().unwrap_or_else(decayed);
        decay_on.sort_unstable();
        decay_on.dedup();
        Ok(TrainSettings {
            epochs: self.epochs(),
            batch: batch as usize,
            repeats: repeats as usize,
            at_once: self.at_once(members.len())?,
            distilled: self.distilled(members)?,
            bn_batch: bn_batch as usize,
            momentum: table.momentum.unwrap_or(0.9),
            nesterov: table.nesterov.unwrap_or(true),
            schedule: self.schedule(heterogeneous, average)?,
            decay: table.decay.unwrap_or(5e-4),
            decay_on,
            shared_decay: table.shared_decay.unwrap_or(1.0),
            average,
            label_smoothing: table.label_smoothing.unwrap_or(0.0),
            template_rate: table.template_rate.unwrap_or(1.0),
            coefficient_rate: table.coefficient_rate.unwrap_or(1.0),
            precision: table.precision.unwrap_or(Precision::Auto),
        })
    }

    fn schedule(&self, heterogeneous: bool, average: u64) -> Result<Schedule, RecipeError> {
        let table = &self.train;
        let rate = table.rate.unwrap_or(0.1);
        let warm_up = table.warm_up.unwrap_or(0);
        let word = self.schedule_word();
        if warm_up > 0 && word == ScheduleWord::OneCycle {
            return Err(self.wrong("train.warm_up", "one-cycle rises by itself (train.rise)"));
        }
        if warm_up > self.epochs() {
            let problem = format!("{warm_up} epochs of warm-up in a training of {}", self.epochs());
            return Err(self.wrong("train.warm_up", problem));
        }
        Ok(match word {
            ScheduleWord::Constant => Schedule::Constant { rate, warm_up },
            ScheduleWord::Drops => {
                let factor = table.drop_factor.unwrap_or(0.2);
                Schedule::Drops { rate, factor, at: self.drops(heterogeneous, average)?, warm_up }
            }
            ScheduleWord::OneCycle => Schedule::OneCycle {
                rate,
                rise: table.rise.unwrap_or(0.3),
                start_divisor: table.start_divisor.unwrap_or(25.0),
                end_divisor: table.end_divisor.unwrap_or(1e4),
            },
        })
    }

    fn schedule_word(&self) -> ScheduleWord {
        self.train.schedule.unwrap_or(ScheduleWord::Drops)
    }

    /// By default a mean and one late drop belong together, where one network is trained: whoever gives drops has an end of
    /// their own. The most they may be hangs on refinement.
    fn average(&self, alone: bool, refined: u64) -> Result<u64, RecipeError> {
        let (asked, epochs) = (self.train.average.as_ref(), self.epochs());
        let free = self.train.drops.is_none() && self.schedule_word() == ScheduleWord::Drops;
        if asked.is_none() && alone && free {
            return Ok((epochs * 26 / 100).min(epochs - refined));
        }
        self.count_or_share("train.average", asked, epochs, "epochs")
    }

    /// A number as given, a share of the whole rounded down; none where nobody says.
    fn count_or_share(
        &self,
        key: &'static str,
        asked: Option<&CountOrText>,
        whole: u64,
        of: &str,
    ) -> Result<u64, RecipeError> {
        let text = asked.map_or("0".to_owned(), CountOrText::text);
        let wrong = |what: &str| Err(self.wrong(key, format!("'{text}' is {what}")));
        match percent(&text) {
            None => text.parse().or_else(|_| wrong(&format!("neither a number of {of} nor a share"))),
            Some(Ok(share)) if (0.0..=100.0).contains(&share) => Ok((share * whole as f64 / 100.0) as u64),
            Some(_) => wrong("not a share between 0% and 100%"),
        }
    }

    /// Epochs as given; shares rounded down, without those that fall on the start or on one another: a training of one
    /// epoch has no drops.
    fn drops(&self, heterogeneous: bool, average: u64) -> Result<Vec<u64>, RecipeError> {
        let epochs = self.epochs();
        let usual = || {
            let shares: &[&str] = match (average, heterogeneous) {
                // A mean is of epochs at one rate.
                (1.., _) if epochs.saturating_sub(average) < epochs * 66 / 100 => {
                    let before = (epochs > average).then(|| CountOrText::Count(epochs - average));
                    return before.into_iter().collect();
                }
                (1.., _) => &["66%"],
                (0, true) => &["30%", "60%", "80%"],
                (0, false) => &["30%", "60%", "90%"],
            };
            shares.iter().map(|&share| CountOrText::Text(share.into())).collect()
        };
        let mut at: Vec<u64> = vec![];
        for (i, drop) in self.train.drops.clone().unwrap_or_else(usual).into_iter().enumerate() {
            let text = drop.text();
            let wrong = |problem: String| self.source.wrong("train.drops", Some(i), problem);
            let share = percent(&text);
            let epoch = match share {
                None => match text.parse::<u64>() {
                    Ok(epoch) if epoch > 0 && epoch < epochs => epoch,
                    Ok(epoch) => {
                        return Err(wrong(format!("epoch {epoch} is not inside of {epochs} epochs")));
                    }
                    Err(_) => return Err(wrong(format!("'{text}' is neither an epoch nor a share"))),
                },
                Some(Ok(share)) if share > 0.0 && share < 100.0 => (share * epochs as f64 / 100.0) as u64,
                Some(_) => return Err(wrong(format!("'{text}' is not a share between 0% and 100%"))),
            };
            match at.last() {
                _ if share.is_some() && epoch == 0 => {}
                Some(&last) if share.is_some() && epoch == last => {}
                Some(&last) if epoch <= last => {
                    return Err(wrong(format!("'{text}' does not come after epoch {last}")));
                }
                _ => at.push(epoch),
            }
        }
        Ok(at)
    }

    fn search(&self, strategy: Strategy, tiling: Tiling) -> Option<SearchPhase> {
        if self.plan.file.is_some() {
            return None;
        }
        let (similarity, coefficients) = strategy.method().search?;
        let table = &self.search;
        let usual = SearchSettings::usual(tiling);
        let epochs = match similarity {
            Similarity::Coefficient => 15,
            _ => 20,
        };
        Some(SearchPhase {
            epochs: table.epochs.unwrap_or_else(|| short(epochs, 10, self.epochs())),
            rate: table.rate.or(self.train.rate).unwrap_or(0.1),
            similarity,
            coefficients,
            settings: SearchSettings {
                tau: table.tau.unwrap_or(usual.tau),
                min_templates: table.min_templates.map_or(usual.min_templates, |n| n as usize),
                assignment: table.pq.unwrap_or(Assignment::Merge),
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
        Ok(Some(RefineSettings { epoch, beta, reserve, anew: table.anew.unwrap_or(false) }))
    }

    /// What no key by itself shows.
    fn check_together(&self, resolved: &Resolved) -> Result<(), RecipeError> {
        let (_, set) = self.set()?;
        let (left, batch) = (set.train - resolved.data.validation, resolved.train.batch);
        if batch > left {
            return Err(self.wrong(
                "train.batch",
                format!("{batch} is more than the {left} images trained on: choose at most {left}"),
            ));
        }
        let (members, at_once) = (resolved.members.len(), resolved.train.at_once);
        let (block, steps) = (turns::block(members, at_once), (left / batch) as u64);
        if steps < block {
            let problem = format!(
                "it takes {block} steps until each of {members} members has had a turn, {at_once} in a step, and an epoch \
                 has {steps}: train more at once, hold out fewer images, or choose a smaller train.batch"
            );
            return Err(self.wrong("train.at_once", problem));
        }
        let (average, epochs) = (resolved.train.average, resolved.train.epochs);
        let refined = resolved.refine.as_ref().map_or(0, |refine| refine.epoch);
        if average > epochs - refined {
            let problem = match refined {
                _ if average > epochs => format!("there are no {average} epochs in a training of {epochs}"),
                _ => format!(
                    "the last {average} of {epochs} epochs begin before refinement (refine.epoch = {refined})"
                ),
            };
            return Err(self.wrong("train.average", problem));
        }
        if let Some(batches) = resolved.search.as_ref().and_then(|search| search.batches) {
            // Steps of two rounds may be looked at, and in neither of them all.
            let (least, most) = (2 * block - 1, steps);
            let problem = match batches {
                _ if batches > most => Some(format!("{batches} is more than the {most} of an epoch")),
                _ if batches < least && batches < most => Some(format!(
                    "in {batches} steps some of {members} members may have no turn (train.at_once = {at_once}): choose at \
                     least {}, or leave it out for the whole epoch",
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

    /// The tiling of the first plan and who takes part, if the budget pays for one.
    fn settle(&self, resolved: &Resolved) -> Result<(Tiling, Share), RecipeError> {
        let request = resolved.plan_request().map_err(|error| self.wrong("members", error))?;
        let budget = request.budget.unwrap_or(u64::MAX);
        let survey = request.survey().map_err(|error| self.wrong("members", error))?;
        if survey.minimum > budget {
            let (needed, tiling) = (survey.minimum, survey.minimum_tiling.to_string());
            return Err(self.wrong("budget", PlanError::BudgetTooSmall { budget, needed, tiling }));
        }
        Ok((survey.tiling, survey.share))
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
