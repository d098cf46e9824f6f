//! [`Draft`]: a plan whose clusters are cut into SuperWeights and whose numbers of templates are
//! open.
//!
//! A draft knows the least and the most that its plan can cost, and becomes a plan under a budget.

use std::collections::BTreeMap;

use super::allocate::{Rule, allocate, least};
use super::corner::superweights;
use super::request::{Coefficients, PlanRequest};
use super::scale::{self, Scale};
use super::stretch;
use crate::ids::{ClusterId, LayerId, SetId, SuperWeightId};
use crate::layer::{Layer, Tensors};
use crate::partition::Partition;
use crate::plan::{
    Bill, Cluster, Ledger, PlannedLayer, Rect, SetCost, SharingPlan, Span, SuperWeight,
    TemplateSet, Tile, Tiling, Users, VERSION, View,
};

/// A plan whose numbers of templates are still open.
///
/// Every SuperWeight already has its coefficient groups, as if every set had several templates.
pub(crate) struct Draft {
    pub plan: SharingPlan,
    rule: Rule,
    /// Limit on the templates of a set, [`PlanRequest::max_templates`].
    max_templates: Option<usize>,
}

impl Draft {
    /// Drafts the plan of a request with this tiling and these clusters.
    pub fn new(
        request: &PlanRequest,
        tensors: &Tensors,
        partition: &Partition,
        tiling: Tiling,
    ) -> Self {
        let layers =
            tensors.layers.iter().map(|layer| PlannedLayer { layer: layer.clone(), tiles: vec![] });
        let plan = SharingPlan {
            version: VERSION,
            members: request.members.clone(),
            budget: request.budget,
            reserve: request.reserve,
            tiling,
            layers: layers.collect(),
            vectors: tensors.vectors.clone(),
            clusters: vec![],
            template_sets: vec![],
            superweights: vec![],
            bill: Bill::default(),
        };
        let mut draft = Self { plan, rule: Rule::of(tiling), max_templates: request.max_templates };
        for cluster in partition {
            draft.add_cluster(cluster, tiling);
        }
        for (id, users) in draft.plan.users().iter().enumerate() {
            draft.plan.set_groups(SuperWeightId(id), users, groups(&request.coefficients, users));
        }
        draft
    }

    /// Adds a cluster with its template sets, SuperWeights and tiles.
    ///
    /// Nested tiling has one set per SuperWeight; grid and Kronecker tiling have one set per
    /// cluster.
    fn add_cluster(&mut self, layers: &[LayerId], tiling: Tiling) {
        if tiling.has_banks() {
            return self.add_bank(layers);
        }
        let plan = &mut self.plan;
        let cluster = ClusterId(plan.clusters.len());
        let shapes: Vec<_> =
            layers.iter().map(|id| (plan.layer(*id).out, plan.layer(*id).inp)).collect();
        let [kh, kw] = plan.layer(layers[0]).kernel;
        let mut add_set = |rows: usize, cols: usize| {
            plan.template_sets.push(TemplateSet {
                cluster,
                block: [rows, cols, kh, kw],
                templates: 0,
                std: 0.0,
                row_norm: 1.0,
                gain: 1.0,
                view: None,
            });
            SetId(plan.template_sets.len() - 1)
        };
        let shared = tiling.block().map(|block| {
            let out = shapes.iter().map(|s| s.0).max().unwrap_or(0);
            let inp = shapes.iter().map(|s| s.1).max().unwrap_or(0);
            add_set(block.min(out), block.min(inp))
        });
        for at in superweights(shapes.iter().copied()) {
            let set = shared.unwrap_or_else(|| add_set(at.rows.len(), at.cols.len()));
            let superweight = SuperWeightId(plan.superweights.len());
            plan.superweights.push(SuperWeight { set, at, groups: vec![] });
            for (id, &(out, inp)) in layers.iter().zip(&shapes) {
                if let Some(at) = at.clip(out, inp) {
                    plan.layers[id.0].tiles.push(Tile { superweight, at, factor: 1.0 });
                }
            }
        }
        let mut layers = layers.to_vec();
        layers.sort();
        plan.clusters.push(Cluster { layers, bank: None });
    }

    /// Adds a cluster with a bank: one template set and one SuperWeight per layer.
    fn add_bank(&mut self, layers: &[LayerId]) {
        let plan = &mut self.plan;
        let cluster = ClusterId(plan.clusters.len());
        let mut layers = layers.to_vec();
        layers.sort();
        for &id in &layers {
            let PlannedLayer { layer, tiles } = &mut plan.layers[id.0];
            let [kh, kw] = layer.kernel;
            let (set, superweight) =
                (SetId(plan.template_sets.len()), SuperWeightId(plan.superweights.len()));
            plan.template_sets.push(TemplateSet {
                cluster,
                block: [layer.out, layer.inp, kh, kw],
                templates: 0,
                std: 0.0,
                row_norm: 1.0,
                gain: 1.0,
                view: Some(View { at: vec![], from: None }),
            });
            let at = Rect { rows: Span::new(0, layer.out), cols: Span::new(0, layer.inp) };
            plan.superweights.push(SuperWeight { set, at, groups: vec![] });
            tiles.push(Tile { superweight, at, factor: 1.0 });
        }
        plan.clusters.push(Cluster { layers, bank: Some(0) });
    }

    /// Layers of each cluster.
    fn clusters(&self) -> Vec<Vec<&Layer>> {
        let layers =
            |cluster: &Cluster| cluster.layers.iter().map(|&id| self.plan.layer(id)).collect();
        self.plan.clusters.iter().map(layers).collect()
    }

    /// Number of parameters that are not shared.
    fn fixed(&self) -> u64 {
        self.plan.count_owned().total()
    }

    /// Number of parameters in one template of every set.
    pub fn template_parameters(&self) -> u64 {
        self.plan.set_costs().iter().map(|cost| cost.block + cost.pattern).sum()
    }

    /// Cost of the plan with as many templates as are useful.
    pub fn max_cost(&self) -> u64 {
        self.cost_with(usize::MAX)
    }

    /// Cost of the plan with this many templates in every set, but no more than are useful.
    pub fn cost_with(&self, templates: usize) -> u64 {
        let costs = self.plan.set_costs();
        let useful = |cost: &SetCost| self.rule.cap(cost, self.plan.reserve).min(templates);
        let counts: Vec<_> = costs.iter().map(useful).collect();
        self.fixed() + Ledger::of(&costs, &counts).total(self.plan.reserve)
    }

    /// Smallest budget of the plan.
    pub fn min_budget(&self) -> u64 {
        let own = match self.plan.tiling {
            Tiling::Stretched => self
                .clusters()
                .iter()
                .map(|layers| stretch::min_cost(layers, self.max_templates))
                .sum(),
            Tiling::RankOne => {
                self.clusters().iter().map(|layers| stretch::matrix_and_factors(layers)).sum()
            }
            _ => least(self.rule, &self.plan.set_costs(), self.plan.reserve).1,
        };
        self.fixed() + own
    }

    /// Sets the bank of every cluster and the view of every set; returns the number of templates of
    /// each set. `None` if `available` parameters are too few.
    fn place_templates(&mut self, available: u64) -> Option<Vec<usize>> {
        let clusters = self.clusters();
        let banks = match self.plan.tiling {
            Tiling::RankOne => stretch::matrices(&clusters, available)?,
            _ => stretch::banks(&clusters, available, self.max_templates)?,
        };
        for (cluster, bank) in self.plan.clusters.iter_mut().zip(&banks) {
            cluster.bank = Some(bank.parameters);
        }
        let views: Vec<_> = banks.into_iter().flat_map(|bank| bank.views).collect();
        let counts = views.iter().map(|view| view.at.len()).collect();
        for (set, view) in self.plan.template_sets.iter_mut().zip(views) {
            set.view = Some(view);
        }
        Some(counts)
    }

    /// Makes the plan with as many templates as the budget pays for; `None` if it is too small.
    pub fn allocate(mut self, budget: u64, scale: Scale) -> Option<SharingPlan> {
        let costs = self.plan.set_costs();
        let available = budget.checked_sub(self.fixed())?;
        let counts = match self.plan.tiling {
            Tiling::Stretched | Tiling::RankOne => self.place_templates(available)?,
            _ => {
                let mut counts = allocate(self.rule, &costs, available, self.plan.reserve)?;
                if let Some(most) = self.max_templates {
                    let least = |cost: &SetCost| self.rule.least(cost);
                    counts
                        .iter_mut()
                        .zip(&costs)
                        .for_each(|(k, cost)| *k = (*k).min(most.max(least(cost))));
                }
                debug_assert!(Ledger::of(&costs, &counts).total(self.plan.reserve) <= available);
                counts
            }
        };
        for (set, &templates) in self.plan.template_sets.iter_mut().zip(&counts) {
            set.templates = templates;
        }
        for superweight in &mut self.plan.superweights {
            match counts[superweight.set.0] {
                1 => superweight.groups.clear(),
                k => superweight.groups.iter_mut().for_each(|group| group.shape[1] = k),
            }
        }
        scale::fill(&mut self.plan, &costs, scale);
        self.plan.bill = self.plan.count();
        Some(self.plan)
    }
}

/// Coefficient groups of one SuperWeight with these users.
fn groups(coefficients: &Coefficients, users: &Users) -> Partition {
    let users = users.iter().map(|&(id, _)| id);
    match coefficients {
        Coefficients::Shared => vec![users.collect()],
        Coefficients::PerLayer => users.map(|id| vec![id]).collect(),
        Coefficients::Explicit(sets) => {
            let set_of = |id: LayerId| sets.iter().position(|set| set.contains(&id));
            let mut groups = BTreeMap::<_, Vec<LayerId>>::new();
            for id in users {
                // Layers of one requested group get one key; every other layer gets its own.
                let key = set_of(id).map_or((1, id.0), |set| (0, set));
                groups.entry(key).or_default().push(id);
            }
            groups.into_values().collect()
        }
    }
}
