//! Validation of plans from any source.
//!
//! A valid plan has the layers of its architectures, covers every weight exactly once, gives every
//! layer coefficients of the right shape, and has a correct bill. It need not be a plan that this
//! crate's planner would make.

use std::collections::{BTreeMap, BTreeSet};

use super::rect::Span;
use super::types::{
    BLOCKS, MAX_TEMPLATES, PlannedLayer, SharingPlan, TemplateSet, Tiling, Users, VERSION,
};
use crate::error::PlanError;
use crate::ids::{ClusterId, LayerId, MemberId, SuperWeightId};
use crate::layer::{Layer, MAX_PARAMETERS, Tensors, check_compatible};
use crate::partition::{Partition, check_families, check_partition};

/// Returns [`PlanError::Invalid`] with a place and a formatted problem unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $place:expr, $($problem:tt)+) => {
        if !$condition {
            let (place, problem) = (format!("{}", $place), format!($($problem)+));
            return Err(PlanError::Invalid { place, problem });
        }
    };
}

impl SharingPlan {
    /// Checks the plan against the architectures of its members and against itself.
    ///
    /// # Errors
    ///
    /// [`PlanError::Invalid`] with the first place that is wrong.
    pub fn validate(&self) -> Result<(), PlanError> {
        ensure!(self.version == VERSION, "version", "expected {VERSION}, found {}", self.version);
        ensure!(!self.members.is_empty(), "members", "a plan has at least one member");
        ensure!(
            (0.0..=1.0).contains(&self.reserve),
            "reserve",
            "expected 0 to 1, found {}",
            self.reserve
        );
        self.check_tensors()?;
        self.check_clusters()?;
        self.check_sets()?;
        self.check_superweights()?;
        self.check_layers()?;
        let users = self.users();
        for (i, users) in users.iter().enumerate() {
            ensure!(!users.is_empty(), format_args!("superweights[{i}]"), "no layer uses it");
            self.check_groups(SuperWeightId(i), users)?;
        }
        let used: BTreeSet<_> =
            self.superweights.iter().map(|superweight| superweight.set.0).collect();
        let idle = (0..self.template_sets.len()).find(|set| !used.contains(set));
        ensure!(
            idle.is_none(),
            format_args!("template_sets[{}]", idle.unwrap_or(0)),
            "no SuperWeight uses it"
        );
        self.check_bill()
    }

    /// Layers and vectors are those of the architectures.
    fn check_tensors(&self) -> Result<(), PlanError> {
        if let Err(error) = check_compatible(&self.members) {
            return Err(PlanError::Invalid { place: "members".into(), problem: error.to_string() });
        }
        let mut expected = Tensors { layers: vec![], vectors: vec![] };
        for (i, member) in self.members.iter().enumerate() {
            let built = match member.build() {
                Ok(built) => built,
                Err(error) => {
                    return Err(PlanError::Invalid {
                        place: format!("members[{i}]"),
                        problem: error.to_string(),
                    });
                }
            };
            expected.add(MemberId(i), &built);
            let total = expected.total();
            ensure!(
                total <= MAX_PARAMETERS,
                format_args!("members[{i}]"),
                "more than {MAX_PARAMETERS} parameters so far"
            );
            // Compare after every member: a short file could name a thousand deep networks.
            let (found, so_far) = (self.layers.len(), expected.layers.len());
            ensure!(
                so_far <= found,
                "layers",
                "the members have at least {so_far} layers, the plan has {found}"
            );
        }
        let (found, count) = (self.layers.len(), expected.layers.len());
        ensure!(found == count, "layers", "the members have {count} layers, the plan has {found}");
        for (i, (found, expected)) in self.layers().zip(&expected.layers).enumerate() {
            let describe = |l: &Layer| format!("{} {} of member {}", l.shape(), l.name, l.member);
            let (a, b) = (describe(expected), describe(found));
            ensure!(
                found == expected,
                format_args!("layers[{i}].layer"),
                "the architecture has {a}, the plan has {b}"
            );
        }
        let (found, count) = (self.vectors.len(), expected.vectors.len());
        ensure!(
            found == count,
            "vectors",
            "the members have {count} vectors, the plan has {found}"
        );
        for (i, (found, expected)) in self.vectors.iter().zip(&expected.vectors).enumerate() {
            let (a, b) = (&expected.name, expected.len);
            ensure!(
                found == expected,
                format_args!("vectors[{i}]"),
                "expected {a} of length {b}, as in the architecture"
            );
        }
        Ok(())
    }

    /// Clusters are disjoint, of one family each, and have banks if the tiling has.
    fn check_clusters(&self) -> Result<(), PlanError> {
        let layers: Vec<Layer> = self.layers().cloned().collect();
        let partition: Partition = self.clusters.iter().map(|c| c.layers.clone()).collect();
        let banks = self.tiling.has_banks();
        let checked = check_partition(&layers, &partition, "clusters").and_then(|()| match banks {
            true => Ok(()), // layers of all families may read one bank
            false => check_families(&layers, &partition),
        });
        ensure!(checked.is_ok(), "clusters", "{}", checked.unwrap_err());
        for (i, cluster) in self.clusters.iter().enumerate() {
            let (place, tiling) = (format_args!("clusters[{i}].bank"), self.tiling);
            ensure!(
                banks || cluster.bank.is_none(),
                place,
                "{tiling} tiling has no banks: remove this field"
            );
            ensure!(
                !banks || cluster.bank.is_some(),
                place,
                "{tiling} tiling needs the size of the bank"
            );
            let parameters = cluster.bank.unwrap_or(1);
            let known = (1..=MAX_PARAMETERS).contains(&parameters);
            ensure!(known, place, "expected 1 to {MAX_PARAMETERS} parameters, found {parameters}");
            ensure!(
                cluster.layers.is_sorted(),
                format_args!("clusters[{i}].layers"),
                "layer ids must be in rising order"
            );
            for &id in &cluster.layers {
                let tiles = self.layers[id.0].tiles.len();
                ensure!(
                    tiles > 0,
                    format_args!("layers[{id}].tiles"),
                    "the layer is in cluster {i} but has no tiles"
                );
            }
        }
        Ok(())
    }

    /// Template sets have blocks that fit their cluster, and sane counts and scales.
    fn check_sets(&self) -> Result<(), PlanError> {
        if let Some(block) = self.tiling.block() {
            let (least, most) = (BLOCKS.start(), BLOCKS.end());
            ensure!(
                BLOCKS.contains(&block),
                "tiling",
                "expected a block of {least} to {most} channels, found {block}"
            );
        }
        for (i, set) in self.template_sets.iter().enumerate() {
            let place = format!("template_sets[{i}]");
            let known = set.cluster.0 < self.clusters.len();
            ensure!(known, format_args!("{place}.cluster"), "there is no cluster {}", set.cluster);
            let layers: Vec<_> =
                self.clusters[set.cluster.0].layers.iter().map(|&id| self.layer(id)).collect();
            let out = layers.iter().map(|l| l.out).max().unwrap_or(0);
            let inp = layers.iter().map(|l| l.inp).max().unwrap_or(0);
            let [rows, cols, kh, kw] = set.block;
            // A bank serves layers of all kernel sizes; `check_tiles` compares each kernel with its
            // layer.
            let known = layers.iter().find(|l| !self.tiling.has_banks() || l.kernel == [kh, kw]);
            let of_kernel = known.is_some() || layers.is_empty();
            ensure!(
                of_kernel,
                format_args!("{place}.block"),
                "no layer of its cluster has a {kh}×{kw} kernel"
            );
            let kernel = known.map_or([0; 2], |l| l.kernel);
            let fits = (1..=out).contains(&rows) && (1..=inp).contains(&cols) && [kh, kw] == kernel;
            let (found, [h, w]) = (set.block, kernel);
            ensure!(
                fits,
                format_args!("{place}.block"),
                "the block {found:?} is not within the largest shape of its cluster, [{out}, {inp}, {h}, {w}]"
            );
            if let Some(block) = self.tiling.block() {
                let within = rows <= block && cols <= block;
                ensure!(
                    within,
                    format_args!("{place}.block"),
                    "{found:?} is larger than the tiling's block of {block}"
                );
            }
            let k = set.templates;
            let range = 1..=MAX_TEMPLATES;
            ensure!(
                range.contains(&k),
                format_args!("{place}.templates"),
                "expected 1 to {MAX_TEMPLATES}, found {k}"
            );
            for (name, size) in [("std", set.std), ("row_norm", set.row_norm), ("gain", set.gain)] {
                ensure!(
                    (size as f32).is_normal() && size > 0.0,
                    format_args!("{place}.{name}"),
                    "expected a positive number in the range of 32-bit floats, found {size}"
                );
            }
            let gain = self.has_patterns() || set.gain == 1.0;
            ensure!(
                gain,
                format_args!("{place}.gain"),
                "only Kronecker tiling has a gain: remove this field"
            );
            self.check_view(&place, set)?;
        }
        let made = self
            .template_sets
            .iter()
            .map(|set| set.templates as u128 * u128::from(set.block_len()));
        let banks = self.clusters.iter().map(|cluster| u128::from(cluster.bank.unwrap_or(0)));
        let parameters: u128 = made.chain(banks).sum();
        let few = parameters <= u128::from(MAX_PARAMETERS);
        ensure!(
            few,
            "template_sets",
            "{parameters} template parameters are more than {MAX_PARAMETERS}"
        );
        let consistent = (self.tiling == Tiling::Dense) == self.clusters.is_empty();
        ensure!(
            consistent,
            "tiling",
            "is {}, but there are {} clusters (dense plans have none, others at least one)",
            self.tiling,
            self.clusters.len()
        );
        Ok(())
    }

    /// Templates of a set lie in the bank of their cluster.
    fn check_view(&self, place: &str, set: &TemplateSet) -> Result<(), PlanError> {
        let (set_place, place, tiling) = (place, format!("{place}.view"), self.tiling);
        let Some(view) = &set.view else {
            ensure!(
                !tiling.has_banks(),
                place,
                "{tiling} tiling needs the places of the templates in the bank"
            );
            return Ok(());
        };
        let bank = self.clusters[set.cluster.0].bank;
        ensure!(
            bank.is_some(),
            place,
            "{tiling} tiling does not read from banks: remove this field"
        );
        let (found, templates) = (view.at.len(), set.templates);
        let whole = templates == 1 && view.from.is_none() && bank == Some(set.block_len());
        ensure!(
            tiling != Tiling::RankOne || whole,
            place,
            "with rank-one tiling a set has one template, which is the whole bank"
        );
        ensure!(
            found == templates,
            format_args!("{place}.at"),
            "expected one place for each of {templates} templates, found {found}"
        );
        let mut places = view.at.clone();
        places.sort_unstable();
        let apart = places.windows(2).all(|pair| pair[0] < pair[1]);
        ensure!(apart, format_args!("{place}.at"), "two templates start at the same place");
        let ([rows, cols, kh, kw], [from_rows, from_cols]) = (set.block, view.source(set.block));
        let smaller = (1..=rows).contains(&from_rows) && (1..=cols).contains(&from_cols);
        ensure!(
            smaller,
            format_args!("{place}.from"),
            "expected [1, 1] to [{rows}, {cols}], found [{from_rows}, {from_cols}]"
        );
        let (len, bank) = ((from_rows * from_cols * kh * kw) as u64, bank.unwrap_or(0));
        let outside = view.at.iter().find(|at| at.checked_add(len).is_none_or(|end| end > bank));
        ensure!(
            outside.is_none(),
            format_args!("{place}.at"),
            "{len} parameters from {} on are not within the bank of {bank}",
            outside.unwrap_or(&0)
        );
        let first = self.template_sets.iter().find(|other| other.cluster == set.cluster);
        let same = first.is_none_or(|first| first.std == set.std);
        ensure!(
            same,
            format_args!("{set_place}.std"),
            "other sets in the same bank have another value"
        );
        Ok(())
    }

    /// SuperWeights lie inside a layer of their cluster, and fit their template set.
    fn check_superweights(&self) -> Result<(), PlanError> {
        for (i, superweight) in self.superweights.iter().enumerate() {
            let place = format!("superweights[{i}]");
            let set = self.template_sets.get(superweight.set.0);
            ensure!(
                set.is_some(),
                format_args!("{place}.set"),
                "there is no template set {}",
                superweight.set
            );
            let set = self.set(superweight.set);
            let (at, [rows, cols, ..]) = (superweight.at, set.block);
            let layers = self.clusters[set.cluster.0].layers.iter().map(|&id| self.layer(id));
            let whole = layers.into_iter().any(|l| at.clip(l.out, l.inp) == Some(at));
            ensure!(
                whole,
                format_args!("{place}.at"),
                "{at} are not completely inside any layer of its cluster"
            );
            let whole = self.tiling == Tiling::Nested || self.tiling.has_banks();
            ensure!(
                !whole || (at.rows.len(), at.cols.len()) == (rows, cols),
                format_args!("{place}.at"),
                "{} tiling needs a template set whose block is [{}, {}], not [{rows}, {cols}]",
                self.tiling,
                at.rows.len(),
                at.cols.len()
            );
        }
        Ok(())
    }

    fn check_layers(&self) -> Result<(), PlanError> {
        let mut cluster_of = vec![None; self.layers.len()];
        for (i, cluster) in self.clusters.iter().enumerate() {
            cluster.layers.iter().for_each(|id| cluster_of[id.0] = Some(ClusterId(i)));
        }
        for (i, layer) in self.layers.iter().enumerate() {
            self.check_tiles(i, layer, cluster_of[i])?;
        }
        Ok(())
    }

    /// The tiles of a layer belong to its cluster, are disjoint, and cover the weight.
    fn check_tiles(
        &self,
        index: usize,
        PlannedLayer { layer, tiles }: &PlannedLayer,
        cluster: Option<ClusterId>,
    ) -> Result<(), PlanError> {
        let mut factors = BTreeMap::new();
        for (t, tile) in tiles.iter().enumerate() {
            let place = format!("layers[{index}].tiles[{t}]");
            let known = tile.superweight.0 < self.superweights.len();
            ensure!(known, place, "there is no SuperWeight {}", tile.superweight);
            let superweight = self.superweight(tile.superweight);
            let owner = self.set(superweight.set).cluster;
            let own = cluster == Some(owner);
            ensure!(
                own,
                place,
                "SuperWeight {} belongs to cluster {owner}, but the layer does not",
                tile.superweight
            );
            let [.., kh, kw] = self.set(superweight.set).block;
            let ([h, w], shape) = (layer.kernel, layer.shape());
            ensure!(
                [kh, kw] == [h, w],
                place,
                "templates with a {kh}×{kw} kernel cannot compose {shape}"
            );
            let expected = superweight.at.clip(layer.out, layer.inp);
            let (found, whole) = (tile.at, superweight.at);
            ensure!(
                expected == Some(found),
                place,
                "expected SuperWeight {}'s {whole}, clipped to [{}, {}]; found {found}",
                tile.superweight,
                layer.out,
                layer.inp
            );
            let factor = tile.factor;
            ensure!(
                (factor as f32).is_normal(),
                place,
                "expected a nonzero factor in the range of 32-bit floats, found {factor}"
            );
            let same = *factors.entry(superweight.set).or_insert(factor) == factor;
            ensure!(
                same,
                place,
                "the factor differs from that of the layer's other tiles of the same template set"
            );
            for (o, other) in tiles[..t].iter().enumerate() {
                let apart = |a: Span, b: Span| a.end <= b.start || b.end <= a.start;
                let disjoint = apart(found.rows, other.at.rows) || apart(found.cols, other.at.cols);
                ensure!(disjoint, place, "covers positions that tiles[{o}] covers already");
            }
        }
        // Disjoint tiles inside the layer cover it if and only if their areas add up.
        let (covered, area) =
            (tiles.iter().map(|t| t.at.area()).sum::<usize>(), layer.out * layer.inp);
        let place = format!("layers[{index}].tiles");
        ensure!(
            tiles.is_empty() || covered == area,
            place,
            "cover {covered} of {area} positions of {}",
            layer.shape()
        );
        Ok(())
    }

    /// Every layer that uses a SuperWeight is in one of its groups, whose α has the right shape.
    fn check_groups(&self, id: SuperWeightId, users: &Users) -> Result<(), PlanError> {
        let superweight = self.superweight(id);
        let templates = self.set(superweight.set).templates;
        let place = format!("superweights[{id}].groups");
        if templates == 1 {
            ensure!(
                superweight.groups.is_empty(),
                place,
                "one template needs no coefficients: remove the groups"
            );
            return Ok(());
        }
        let all: BTreeSet<_> = users.iter().map(|&(layer, _)| layer).collect();
        let mut missing = all.clone();
        for (g, group) in superweight.groups.iter().enumerate() {
            let place = format!("{place}[{g}]");
            ensure!(!group.layers.is_empty(), place, "has no layers");
            for layer in &group.layers {
                let user = all.contains(layer);
                ensure!(
                    user,
                    format_args!("{place}.layers"),
                    "layer {layer} does not use SuperWeight {id}"
                );
                let first = missing.remove(layer);
                ensure!(
                    first,
                    format_args!("{place}.layers"),
                    "layer {layer} is in two groups of SuperWeight {id}"
                );
            }
            ensure!(
                group.layers.is_sorted(),
                format_args!("{place}.layers"),
                "layer ids must be in rising order"
            );
            let expected = [self.group_rows(users, &group.layers), templates];
            let found = group.shape;
            ensure!(
                found == expected,
                format_args!("{place}.shape"),
                "expected {expected:?} for these layers, found {found:?}"
            );
        }
        let missing: Vec<_> = missing.iter().map(LayerId::to_string).collect();
        let names = missing.join(", ");
        ensure!(
            missing.is_empty(),
            place,
            "layers {names} use SuperWeight {id} but have no coefficients"
        );
        Ok(())
    }

    /// The bill is what the parts of the plan add up to, and within the budget.
    fn check_bill(&self) -> Result<(), PlanError> {
        let (found, counted) = (self.bill, self.count());
        for ((what, says), (_, has)) in found.parts().into_iter().zip(counted.parts()) {
            ensure!(
                says == has,
                format!("bill.{what}"),
                "expected {has}, as counted from the plan; found {says}"
            );
        }
        let total = self.bill.total();
        if let Some(budget) = self.budget {
            ensure!(
                total <= budget,
                "bill",
                "the plan has {total} parameters, but the budget is {budget}"
            );
        }
        Ok(())
    }
}
