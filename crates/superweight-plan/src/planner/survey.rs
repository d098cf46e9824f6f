//! From a request to a plan: cluster, cut, count, allocate.
//!
//! *Which tiling* is decided once: nested if its minimum is at most half the budget, or if the budget is all that
//! the members have without sharing. (A tight nested plan has one template nearly everywhere: nothing to
//! refine and no room to split.) Else a grid of the smallest block of which the budget pays for [`ROOM`] templates a set, else patterns, which need
//! least. Where the preferred one does not fit another is taken, so that a larger budget is never
//! worse: `minimum` is the smallest of all.

use super::allocate::Rule;
use super::cluster::SharedRoles;
use super::draft::Draft;
use super::request::{PlanRequest, TilingChoice};
use super::scale::Scale;
use super::stretch;
use crate::error::PlanError;
use crate::ids::SetId;
use crate::layer::Role;
use crate::partition::Partition;
use crate::plan::{SharingPlan, Tiling};

/// Sides that are tried for a grid, the best first: 8 was better than 16 in 1% of WRN-28-10, and than 4 and 16 in 10%.
const GRIDS: [usize; 3] = [8, 16, 32];

/// Templates of every set that the budget should pay for, so that layers can differ; larger sets may get more and others fewer.
pub(crate) const ROOM: usize = 3;

/// Sides that are tried where templates are patterns times blocks.
const PATTERNED: [usize; 6] = [2, 4, 8, 16, 32, 64];

/// What is known before anything is allocated.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// Trainable numbers of all members if nothing is shared.
    pub dense_total: u64,
    /// The clusters.
    pub partition: Partition,
    /// Which layers besides the body take part, with nothing left open.
    pub shared_roles: SharedRoles,
    /// The tiling that a plan would use.
    pub tiling: Tiling,
    /// Smallest budget with nested tiling; nobody asks where templates are looked at in banks.
    pub nested_min_budget: Option<u64>,
    /// The tiling by blocks that is, or would be, used, and its smallest budget.
    pub blocks: Option<(Tiling, u64)>,
    /// Smallest budget that can be met as requested.
    pub min_budget: u64,
    /// The tiling that meets it.
    pub min_budget_tiling: Tiling,
}

impl PlanRequest {
    /// What every tiling would need, and which one is chosen. A classifier that nobody has decided about takes part where blocks make
    /// it smaller, and where nothing else fits; always where it looks at a bank, as in the methods that do so.
    pub fn survey(&self) -> Result<Survey, PlanError> {
        let survey = |classifier| {
            self.survey_with(SharedRoles { classifier: Some(classifier), ..self.shared_roles })
        };
        if let Some(said) = self.shared_roles.classifier {
            return survey(said);
        }
        if self.tiling.has_banks() {
            return survey(true);
        }
        let (with, without) = (survey(true)?, survey(false)?);
        let saves = with.min_budget < without.min_budget;
        let takes_part =
            self.makes_classifiers_smaller(&with) || (saves && !self.pays(without.min_budget));
        let (chosen, other) = if takes_part { (&with, &without) } else { (&without, &with) };
        // Smaller budgets may decide otherwise, so the smallest is that of either.
        let smaller = |(tiling, min_budget), other: Option<(Tiling, u64)>| {
            let same = other.filter(|(other, _)| *other == tiling);
            (tiling, same.map_or(min_budget, |(_, other)| other.min(min_budget)))
        };
        let blocks = chosen.blocks.map(|blocks| smaller(blocks, other.blocks));
        let Survey { min_budget, min_budget_tiling, .. } = *if saves { &with } else { &without };
        Ok(Survey { blocks, min_budget, min_budget_tiling, ..chosen.clone() })
    }

    /// Whether a classifier takes part by blocks that have fewer numbers than it; with patterns, of which it can use more and more,
    /// another one included.
    fn makes_classifiers_smaller(&self, survey: &Survey) -> bool {
        // What training will have, however few templates coefficients are clustered on.
        let request = Self { max_templates: None, ..self.clone() };
        let Ok(plan) = request.plan_with(survey) else { return false };
        let made = plan.layers.iter().filter(|planned| planned.layer.role == Role::Classifier);
        let mut tiles = made.flat_map(|planned| &planned.tiles);
        let (rule, costs) = (Rule::of(survey.tiling), plan.set_costs());
        let another = if rule == Rule::Patterned { 1.0 } else { 0.0 };
        survey.tiling.block().is_some()
            && tiles.any(|tile| {
                let SetId(set) = plan.superweight(tile.superweight).set;
                let templates = plan.template_sets[set].templates as f64;
                (templates + another) * rule.each(&costs[set], self.reserve)
                    <= costs[set].weights as f64
            })
    }

    /// The same with everything said about who takes part.
    fn survey_with(&self, shared_roles: SharedRoles) -> Result<Survey, PlanError> {
        let tensors = self.check()?;
        let dense_total = tensors.total();
        if self.tiling.has_banks() {
            let mut partition = self.clusters.partition_across(&tensors.layers, shared_roles)?;
            let rank_one = self.tiling == TilingChoice::RankOne;
            if rank_one {
                partition = stretch::by_shape(&tensors.layers, partition);
            }
            let tiling = match partition.is_empty() {
                true => Tiling::Dense,
                false if rank_one => Tiling::RankOne,
                false => Tiling::Stretched,
            };
            let min_budget = Draft::new(self, &tensors, &partition, tiling).min_budget();
            let (nested_min_budget, blocks, min_budget_tiling) = (None, None, tiling);
            return Ok(Survey {
                dense_total,
                partition,
                shared_roles,
                tiling,
                nested_min_budget,
                blocks,
                min_budget,
                min_budget_tiling,
            });
        }
        let partition = |shared_roles| self.clusters.partition(&tensors.layers, shared_roles);
        // Where nobody says, a classifier has nothing to do with templates that are whole.
        let without = SharedRoles {
            classifier: Some(self.shared_roles.classifier.unwrap_or(false)),
            ..shared_roles
        };
        let (whole, cut) = (partition(without)?, partition(shared_roles)?);
        let nested = Draft::new(self, &tensors, &whole, Tiling::Nested).min_budget();
        let draft = |tiling| Draft::new(self, &tensors, &cut, tiling);
        let (blocks, smallest) = self.choose_blocks(draft);
        let by_itself = (if whole.is_empty() { Tiling::Dense } else { Tiling::Nested }, nested);
        let (tiling, (min_budget_tiling, min_budget)) = match self.tiling {
            _ if cut.is_empty() => (Tiling::Dense, (Tiling::Dense, nested)),
            TilingChoice::Nested => (by_itself.0, by_itself),
            TilingChoice::Grid | TilingChoice::Kronecker => (blocks.0, smallest),
            // Those that look at banks: above.
            TilingChoice::Auto | TilingChoice::Stretched | TilingChoice::RankOne => {
                let nothing_to_save = self.pays(dense_total) || !self.pays(blocks.1);
                let nested_wins =
                    self.pays(nested.saturating_mul(2)) || (nothing_to_save && self.pays(nested));
                let tiling = if nested_wins { by_itself.0 } else { blocks.0 };
                (tiling, if nested <= smallest.1 { by_itself } else { smallest })
            }
        };
        let (partition, shared_roles) =
            if tiling == by_itself.0 { (whole, without) } else { (cut, shared_roles) };
        Ok(Survey {
            dense_total,
            partition,
            shared_roles,
            tiling,
            nested_min_budget: Some(nested),
            blocks: Some(blocks),
            min_budget,
            min_budget_tiling,
        })
    }

    /// The plan.
    pub fn plan(&self) -> Result<SharingPlan, PlanError> {
        self.plan_with(&self.survey()?)
    }

    /// The plan of a survey of this request.
    pub fn plan_with(&self, survey: &Survey) -> Result<SharingPlan, PlanError> {
        let tensors = self.check()?;
        let draft = Draft::new(self, &tensors, &survey.partition, survey.tiling);
        let (tiling, needed) = (survey.min_budget_tiling.to_string(), survey.min_budget);
        let budget = self.budget.unwrap_or(u64::MAX);
        let scale = self.scale.unwrap_or(Scale::default_for(survey.tiling));
        draft.allocate(budget, scale).ok_or(PlanError::BudgetTooSmall { budget, needed, tiling })
    }

    /// Whether the budget pays for so many numbers.
    fn pays(&self, numbers: u64) -> bool {
        self.budget.is_none_or(|budget| numbers <= budget)
    }

    /// The tiling by blocks with its minimum, and the one with the smallest minimum of those that may be chosen.
    fn choose_blocks(&self, draft: impl Fn(Tiling) -> Draft) -> ((Tiling, u64), (Tiling, u64)) {
        let drafts = |sides: &[usize], tiling: fn(usize) -> Tiling| -> Vec<Draft> {
            let sides = self.block.as_ref().map_or(sides, std::slice::from_ref);
            sides.iter().map(|&side| draft(tiling(side))).collect()
        };
        let of_grid = || drafts(&GRIDS, |block| Tiling::Grid { block });
        let of_patterns = || drafts(&PATTERNED, |block| Tiling::Kronecker { block });
        let (grids, patterns) = match self.tiling {
            TilingChoice::Grid => (of_grid(), vec![]),
            TilingChoice::Kronecker => (vec![], of_patterns()),
            _ => (of_grid(), of_patterns()),
        };
        let by_minimum = grids.iter().chain(&patterns).min_by_key(|draft| draft.min_budget());
        let smallest = by_minimum.expect("there are some");
        let wasted =
            |draft: &Draft| self.budget.map_or(0, |budget| budget.saturating_sub(draft.most()));
        let roomy = grids.iter().find(|draft| self.pays(draft.with_templates(ROOM)));
        let fitting = patterns.iter().filter(|draft| self.pays(draft.min_budget()));
        let finest = || fitting.min_by_key(|draft| (wasted(draft), draft.template_parameters()));
        let best = roomy.or_else(finest).unwrap_or(smallest);
        let and_minimum = |draft: &Draft| (draft.plan.tiling, draft.min_budget());
        (and_minimum(best), and_minimum(smallest))
    }
}
