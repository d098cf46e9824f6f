//! Chooses the tiling that suits a budget, and finds the smallest feasible budget.
//!
//! The automatic choice, in this order:
//!
//! 1. *Nested*, if the budget is at least twice its smallest one, or if the budget pays for all
//!    members without sharing. (A nested plan with less has one template nearly everywhere: nothing
//!    to refine, and no room to split clusters.)
//! 2. *Grid*, with the smallest block for which the budget pays for [`WANTED_TEMPLATES`] templates
//!    in every set.
//! 3. *Kronecker*, which needs the fewest parameters.
//!
//! If the preferred tiling does not fit, another one is taken. So a larger budget is never refused
//! where a smaller one is accepted: [`Survey::min_budget`] is the smallest over all tilings that
//! the request allows.

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

/// Block sides tried for a grid, best first: 8 was better than 16 at 1% of WRN-28-10, and better
/// than 4 and 16 at 10%.
const GRIDS: [usize; 3] = [8, 16, 32];

/// Templates per set that a grid's budget should pay for, so that layers can differ. The allocation
/// may then give large sets more and small sets fewer.
pub(crate) const WANTED_TEMPLATES: usize = 3;

/// Block sides tried for Kronecker tiling.
const PATTERNED: [usize; 6] = [2, 4, 8, 16, 32, 64];

/// What a request needs and which tiling it gets, before templates are allocated.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Survey {
    /// Number of parameters of all members without sharing.
    pub dense_total: u64,
    /// Clusters of a plan with this tiling.
    pub partition: Partition,
    /// Whether stem and classifier share; `classifier` is decided here if the request leaves it
    /// open.
    pub shared_roles: SharedRoles,
    /// Tiling of the plan.
    pub tiling: Tiling,
    /// Smallest budget with nested tiling; `None` if the request is for a tiling with banks.
    pub nested_min_budget: Option<u64>,
    /// Best grid or Kronecker tiling and its smallest budget, even if the plan is nested; `None` if
    /// the request is for a tiling with banks.
    pub blocks: Option<(Tiling, u64)>,
    /// Smallest feasible budget of the request.
    pub min_budget: u64,
    /// Tiling of a plan with the smallest feasible budget.
    pub min_budget_tiling: Tiling,
}

impl PlanRequest {
    /// Computes what the tilings need and chooses one.
    ///
    /// If the request leaves open whether the classifier shares, it does so where grid or Kronecker
    /// tiling makes it smaller, and where no other plan fits. With banks it always does, as in the
    /// published methods.
    ///
    /// # Errors
    ///
    /// If the request is invalid. A budget that is too small is not an error here.
    pub fn survey(&self) -> Result<Survey, PlanError> {
        let survey = |classifier| {
            self.survey_with(SharedRoles { classifier: Some(classifier), ..self.shared_roles })
        };
        if let Some(classifier) = self.shared_roles.classifier {
            return survey(classifier);
        }
        if self.tiling.has_banks() {
            return survey(true);
        }
        let (with, without) = (survey(true)?, survey(false)?);
        let saves = with.min_budget < without.min_budget;
        let takes_part =
            self.makes_classifiers_smaller(&with) || (saves && !self.affords(without.min_budget));
        let (chosen, other) = if takes_part { (&with, &without) } else { (&without, &with) };
        // A smaller budget may decide differently about the classifier: take the smaller minimum.
        let smaller = |(tiling, min_budget), other: Option<(Tiling, u64)>| {
            let same = other.filter(|(other, _)| *other == tiling);
            (tiling, same.map_or(min_budget, |(_, other)| other.min(min_budget)))
        };
        let blocks = chosen.blocks.map(|blocks| smaller(blocks, other.blocks));
        let Survey { min_budget, min_budget_tiling, .. } = *if saves { &with } else { &without };
        Ok(Survey { blocks, min_budget, min_budget_tiling, ..chosen.clone() })
    }

    /// Whether a plan with this survey composes a classifier of at most as many parameters as its
    /// weight has.
    ///
    /// With Kronecker tiling one more template must fit too: there a set can always use another.
    fn makes_classifiers_smaller(&self, survey: &Survey) -> bool {
        // Decide for the plan that is trained, not for the one with few templates for clustering.
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

    /// The survey for decided roles.
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
        // Nested templates never make a classifier smaller, so it is nested only on request.
        let without = SharedRoles {
            classifier: Some(self.shared_roles.classifier.unwrap_or(false)),
            ..shared_roles
        };
        let (whole, cut) = (partition(without)?, partition(shared_roles)?);
        let nested = Draft::new(self, &tensors, &whole, Tiling::Nested).min_budget();
        let draft = |tiling| Draft::new(self, &tensors, &cut, tiling);
        let (blocks, smallest) = self.choose_blocks(draft);
        let unblocked = if whole.is_empty() { Tiling::Dense } else { Tiling::Nested };
        let nested_or_dense = (unblocked, nested);
        let (tiling, (min_budget_tiling, min_budget)) = match self.tiling {
            _ if cut.is_empty() => (Tiling::Dense, (Tiling::Dense, nested)),
            TilingChoice::Nested => (nested_or_dense.0, nested_or_dense),
            TilingChoice::Grid | TilingChoice::Kronecker => (blocks.0, smallest),
            // Tilings with banks have returned above.
            TilingChoice::Auto | TilingChoice::Stretched | TilingChoice::RankOne => {
                let nothing_to_save = self.affords(dense_total) || !self.affords(blocks.1);
                let nested_wins = self.affords(nested.saturating_mul(2))
                    || (nothing_to_save && self.affords(nested));
                let tiling = if nested_wins { nested_or_dense.0 } else { blocks.0 };
                (tiling, if nested <= smallest.1 { nested_or_dense } else { smallest })
            }
        };
        let (partition, shared_roles) =
            if tiling == nested_or_dense.0 { (whole, without) } else { (cut, shared_roles) };
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

    /// Makes the plan.
    ///
    /// # Errors
    ///
    /// If the request is invalid, or [`PlanError::BudgetTooSmall`].
    pub fn plan(&self) -> Result<SharingPlan, PlanError> {
        self.plan_with(&self.survey()?)
    }

    /// Makes the plan of a survey of this request, without computing the survey again.
    ///
    /// # Errors
    ///
    /// As for [`plan`](Self::plan).
    pub fn plan_with(&self, survey: &Survey) -> Result<SharingPlan, PlanError> {
        let tensors = self.check()?;
        let draft = Draft::new(self, &tensors, &survey.partition, survey.tiling);
        let (tiling, needed) = (survey.min_budget_tiling.to_string(), survey.min_budget);
        let budget = self.budget.unwrap_or(u64::MAX);
        let scale = self.scale.unwrap_or(Scale::default_for(survey.tiling));
        draft.allocate(budget, scale).ok_or(PlanError::BudgetTooSmall { budget, needed, tiling })
    }

    /// Whether the budget pays for this many parameters.
    fn affords(&self, parameters: u64) -> bool {
        self.budget.is_none_or(|budget| parameters <= budget)
    }

    /// The best grid or Kronecker tiling for the budget and the one with the smallest minimum, each
    /// with its smallest budget. `draft` drafts the plan of a tiling.
    fn choose_blocks(&self, draft: impl Fn(Tiling) -> Draft) -> ((Tiling, u64), (Tiling, u64)) {
        let drafts = |sides: &[usize], tiling: fn(usize) -> Tiling| -> Vec<Draft> {
            let sides = self.block.as_ref().map_or(sides, std::slice::from_ref);
            sides.iter().map(|&side| draft(tiling(side))).collect()
        };
        let all_grids = || drafts(&GRIDS, |block| Tiling::Grid { block });
        let all_patterns = || drafts(&PATTERNED, |block| Tiling::Kronecker { block });
        let (grids, patterns) = match self.tiling {
            TilingChoice::Grid => (all_grids(), vec![]),
            TilingChoice::Kronecker => (vec![], all_patterns()),
            _ => (all_grids(), all_patterns()),
        };
        let by_minimum = grids.iter().chain(&patterns).min_by_key(|draft| draft.min_budget());
        let smallest = by_minimum.expect("at least one kind of tiling is tried");
        let wasted =
            |draft: &Draft| self.budget.map_or(0, |budget| budget.saturating_sub(draft.max_cost()));
        let roomy = grids.iter().find(|draft| self.affords(draft.cost_with(WANTED_TEMPLATES)));
        let fitting = patterns.iter().filter(|draft| self.affords(draft.min_budget()));
        let finest = || fitting.min_by_key(|draft| (wasted(draft), draft.template_parameters()));
        let best = roomy.or_else(finest).unwrap_or(smallest);
        let and_minimum = |draft: &Draft| (draft.plan.tiling, draft.min_budget());
        (and_minimum(best), and_minimum(smallest))
    }
}
