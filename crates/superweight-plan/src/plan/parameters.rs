//! Parameter counts of the parts of a plan, and its bill.

use super::cost::{Ledger, SetCost};
use super::types::{Bill, SharingPlan, TemplateSet, Tiling, coefficient_rows};
use crate::ids::{ClusterId, LayerId, SetId, SuperWeightId};
use crate::layer::{Layer, LayerKind, VectorKind};

impl SharingPlan {
    /// Number of parameters in the templates of a set, patterns included.
    ///
    /// 0 if the templates are read from a bank, whose parameters belong to the cluster.
    pub fn template_parameters(&self, id: SetId) -> u64 {
        let set = self.set(id);
        if set.view.is_some() {
            return 0;
        }
        let own =
            self.superweights.iter().enumerate().filter(|(_, superweight)| superweight.set == id);
        let patterns: usize = match self.has_patterns() {
            true => own.map(|(i, _)| self.pattern_cells(SuperWeightId(i)).len()).sum(),
            false => 0,
        };
        set.templates as u64 * (set.block_len() + patterns as u64)
    }

    /// Number of factors that a set's template is multiplied by with rank-one tiling: one per
    /// output and one per input. 0 for other tilings.
    pub fn factor_parameters(&self, id: SetId) -> u64 {
        let [rows, cols, ..] = self.set(id).block;
        if self.tiling == Tiling::RankOne { (rows + cols) as u64 } else { 0 }
    }

    /// Number of parameters of a cluster's bank that are read by any layer for which `of` is true.
    pub fn used_bank_parameters(&self, id: ClusterId, of: impl Fn(&Layer) -> bool) -> u64 {
        let layers = self.clusters[id.0].layers.iter().map(|&id| &self.layers[id.0]);
        let tiles = layers.filter(|planned| of(&planned.layer)).flat_map(|planned| &planned.tiles);
        let sets = tiles.map(|tile| self.set(self.superweight(tile.superweight).set));
        let views = sets.filter_map(|set| Some((set.block, set.view.as_ref()?)));
        let mut ranges: Vec<[u64; 2]> = views
            .flat_map(|(block, view)| {
                let [rows, cols] = view.source(block);
                let len = (rows * cols * block[2] * block[3]) as u64;
                view.at.iter().map(move |&at| [at, at + len])
            })
            .collect();
        ranges.sort_unstable();
        let (mut parameters, mut read_until) = (0, 0);
        for [first, end] in ranges {
            parameters += end.saturating_sub(first.max(read_until));
            read_until = end.max(read_until);
        }
        parameters
    }

    /// Number of parameters in all banks that no layer reads. They are never trained.
    pub fn unused_bank_parameters(&self) -> u64 {
        (0..self.clusters.len()).map(|i| self.unused_bank_parameters_of(ClusterId(i))).sum()
    }

    /// Number of parameters in one cluster's bank that no layer reads.
    pub fn unused_bank_parameters_of(&self, id: ClusterId) -> u64 {
        self.clusters[id.0]
            .bank
            .map_or(0, |parameters| parameters - self.used_bank_parameters(id, |_| true))
    }

    /// Number of parameters in a cluster's templates: those of its bank and of its sets.
    pub fn cluster_parameters(&self, id: ClusterId) -> u64 {
        let sets = self.template_sets.iter().enumerate().filter(|(_, set)| set.cluster == id);
        let own: u64 = sets.map(|(i, _)| self.template_parameters(SetId(i))).sum();
        self.clusters[id.0].bank.unwrap_or(0) + own
    }

    /// Costs of every template set, as the allocation needs them.
    pub(crate) fn set_costs(&self) -> Vec<SetCost> {
        let mut last_depth = vec![1; self.members.len()];
        self.layers().for_each(|layer| last_depth[layer.member.0] = layer.depth.max(1));
        let depth = |&(id, _): &(LayerId, [usize; 2])| {
            let layer = self.layer(id);
            layer.depth as f64 / last_depth[layer.member.0] as f64
        };
        let blank = |set: &TemplateSet| SetCost {
            block: if set.view.is_some() { 0 } else { set.block_len() },
            pattern: 0,
            uses: 0,
            weights: 0,
            live_rows: 0,
            own_rows: 0,
            depth: f64::INFINITY,
        };
        let mut costs: Vec<_> = self.template_sets.iter().map(blank).collect();
        for planned in &self.layers {
            for tile in &planned.tiles {
                let weights = tile.at.area() as u64 * planned.layer.kernel_area() as u64;
                costs[self.superweights[tile.superweight.0].set.0].weights += weights;
            }
        }
        for (superweight, users) in self.superweights.iter().zip(self.users()) {
            let cost = &mut costs[superweight.set.0];
            let cells = users.iter().map(|(_, [rows, cols])| (rows * cols) as u64).sum::<u64>();
            cost.uses += cells;
            if self.has_patterns() {
                let layers: Vec<_> = users.iter().map(|&(layer, _)| layer).collect();
                cost.pattern += coefficient_rows(&users, &layers) as u64;
                cost.own_rows += users.len() as u64;
            } else {
                cost.own_rows += cells;
            }
            cost.live_rows +=
                superweight.groups.iter().map(|group| group.shape[0] as u64).sum::<u64>();
            cost.depth = users.iter().map(depth).fold(cost.depth, f64::min);
        }
        costs
    }

    /// Counts the bill from the parts of the plan.
    pub(crate) fn count(&self) -> Bill {
        let counts: Vec<_> = self.template_sets.iter().map(|set| set.templates).collect();
        let ledger = Ledger::of(&self.set_costs(), &counts);
        let banks: u64 = self.clusters.iter().filter_map(|cluster| cluster.bank).sum();
        let factors: u64 =
            (0..self.template_sets.len()).map(|i| self.factor_parameters(SetId(i))).sum();
        let (templates, coefficients) = (banks + ledger.templates, factors + ledger.live);
        let reserved = ledger.charged(self.reserve) - ledger.live;
        Bill { templates, coefficients, reserved, ..self.count_owned() }
    }

    /// Counts the parts of the bill that are not shared; the others are 0.
    pub(crate) fn count_owned(&self) -> Bill {
        let mut bill = Bill::default();
        for layer in self.layers.iter().filter(|layer| layer.tiles.is_empty()) {
            *match layer.layer.kind {
                LayerKind::Linear => &mut bill.classifier,
                LayerKind::Conv | LayerKind::Depthwise => &mut bill.dense,
            } += layer.layer.len();
        }
        for vector in &self.vectors {
            *match vector.kind {
                VectorKind::NormScale | VectorKind::NormShift => &mut bill.batch_norm,
                VectorKind::Bias => &mut bill.classifier,
            } += vector.len;
        }
        bill
    }
}
