//! Composition for a subset of the members, and the parameters that the subset does not use.
//!
//! A step that trains some of the members behaves as if the plan had no other members. It composes
//! only their weights, and its backward pass starts only from their weights, so that weight decay
//! of composed weights acts through trained layers alone. It changes no parameter that only other
//! members use: their batch norms and biases, their dense layers, and templates, patterns, bank
//! parameters and rows of coefficients that no trained member reads.

use std::collections::HashSet;
use std::ops::Range;

use superweight_engine::{Device, Error, Layout, Memory, Mix, MixOutput, Region};
use superweight_plan::{ClusterId, LayerId, MemberId, SetId, SharingPlan};

use super::compose::{Bank, mix_sets};
use super::names::{
    bank_name, coefficients_name, factors_name, patterns_name, scope, templates_name, weight_name,
};
use super::rows::pattern_rows;
use super::rows::{MixRows, Rows};

/// The composition of a subset of the members; made by [`Bank::subset`].
#[derive(Debug)]
pub struct BankSubset<D: Device> {
    mix: Mix<D>,
}

impl<D: Device> Bank<D> {
    /// Prepares the composition of these members.
    pub fn subset(&self, memory: &Memory<D>, members: &[MemberId]) -> Result<BankSubset<D>, Error> {
        let mut sets = mix_sets(
            &self.plan,
            &MixRows::of_plan(&self.plan),
            memory.layout(),
            self.weight_decay,
        )?;
        let layers = self.plan.layers.iter().enumerate();
        let used = layers.filter(|(_, planned)| members.contains(&planned.layer.member));
        let offset =
            |(i, _)| Ok(memory.layout().parameter(&weight_name(&self.plan, LayerId(i)))?.offset);
        let tensors = used.map(offset).collect::<Result<HashSet<usize>, Error>>()?;
        sets.iter_mut()
            .for_each(|set| set.uses.retain(|used| tensors.contains(&used.tensor.offset)));
        Ok(BankSubset { mix: Mix::new(memory.device(), sets)? })
    }

    /// Writes the composed weights of a subset of the members as [`Bank::compose`] does. Weights of
    /// other members do not change.
    pub fn compose_subset(
        &self,
        subset: &BankSubset<D>,
        memory: &mut Memory<D>,
        output: MixOutput,
    ) -> Result<(), Error> {
        memory.apply_views(&self.views)?;
        memory.mix(&subset.mix, output)
    }

    /// Writes the gradients as [`Bank::compose_backward`] does, from dL/dW of a subset of the
    /// members.
    pub fn compose_subset_backward(
        &self,
        subset: &BankSubset<D>,
        memory: &mut Memory<D>,
    ) -> Result<(), Error> {
        memory.mix_backward(&subset.mix)?;
        memory.apply_views_backward(&self.views)
    }
}

/// Returns the ranges of the parameter storage that none of these members reads.
pub(crate) fn unused_ranges(
    plan: &SharingPlan,
    layout: &Layout,
    members: &[MemberId],
) -> Result<Vec<Range<usize>>, Error> {
    let (mut unused, mut rows): (Vec<Range<usize>>, Vec<Range<usize>>) = (vec![], vec![]);
    let mut whole = |name: &str| -> Result<(), Error> {
        let Region { offset, len, .. } = layout.parameter(name)?;
        unused.push(offset..offset + len);
        Ok(())
    };
    for vector in plan.vectors.iter().filter(|vector| !members.contains(&vector.member)) {
        whole(&(scope(vector.member) + &vector.name))?;
    }
    for (i, planned) in plan.layers.iter().enumerate() {
        if planned.tiles.is_empty() && !members.contains(&planned.layer.member) {
            whole(&weight_name(plan, LayerId(i)))?;
        }
    }
    let read = ReadParameters::by(plan, members);
    for (i, _) in plan.clusters.iter().enumerate().filter(|(_, cluster)| cluster.bank.is_some()) {
        let Region { offset, len, .. } = layout.parameter(&bank_name(ClusterId(i)))?;
        rows.extend(
            read.unread_in_bank(plan, ClusterId(i), len)
                .into_iter()
                .map(|of| offset + of.start..offset + of.end),
        );
    }
    let patterns = pattern_rows(plan);
    for (i, set) in plan.template_sets.iter().enumerate() {
        let id = SetId(i);
        if !read.sets[i] {
            whole(&templates_name(id))?;
            if plan.factor_parameters(id) > 0 {
                whole(&factors_name(id))?;
            }
        }
        let tables = [
            (set.templates > 1, coefficients_name(id), &read.coefficients[i]),
            (patterns[i] > 0, patterns_name(id), &read.patterns[i]),
        ];
        for (_, name, read) in tables.into_iter().filter(|(exists, ..)| *exists) {
            let first = layout.parameter(&name)?.offset;
            let unread = read.iter().enumerate().filter(|(_, read)| !**read);
            rows.extend(
                unread
                    .map(|(row, _)| first + row * set.templates..first + (row + 1) * set.templates),
            );
        }
    }
    unused.extend(rows);
    Ok(unused)
}

/// Shared parameters that some members read.
struct ReadParameters {
    /// For each template set, whether it is read.
    sets: Vec<bool>,
    /// For each set and row of coefficients, whether it is read.
    coefficients: Vec<Vec<bool>>,
    /// For each set and row of patterns, whether it is read.
    patterns: Vec<Vec<bool>>,
}

impl ReadParameters {
    /// Shared parameters that these members read.
    fn by(plan: &SharingPlan, members: &[MemberId]) -> Self {
        let (coefficients, patterns) = (Rows::coefficients(plan), Rows::patterns(plan));
        let none = |rows: &Rows| -> Vec<Vec<bool>> {
            (0..plan.template_sets.len()).map(|i| vec![false; rows.live(SetId(i))]).collect()
        };
        let mut read = Self {
            sets: vec![false; plan.template_sets.len()],
            coefficients: none(&coefficients),
            patterns: none(&patterns),
        };
        for (i, planned) in plan.layers.iter().enumerate() {
            if !members.contains(&planned.layer.member) {
                continue;
            }
            for tile in &planned.tiles {
                let (id, layer) = (tile.superweight, LayerId(i));
                let set = plan.superweight(id).set;
                read.sets[set.0] = true;
                let [down, across] = plan.cells(set, &tile.at);
                for cell in (0..down).flat_map(|r| (0..across).map(move |c| [r, c])) {
                    for (rows, read) in
                        [(&coefficients, &mut read.coefficients), (&patterns, &mut read.patterns)]
                    {
                        if let Some(read) = read[set.0].get_mut(rows.row(id, layer, cell)) {
                            *read = true;
                        }
                    }
                }
            }
        }
        read
    }

    /// Ranges of a bank of `len` parameters that no view of a read set covers.
    fn unread_in_bank(&self, plan: &SharingPlan, bank: ClusterId, len: usize) -> Vec<Range<usize>> {
        let mut covered: Vec<Range<usize>> = vec![];
        for (set, _) in plan.template_sets.iter().zip(&self.sets).filter(|(_, read)| **read) {
            let (Some(view), true) = (&set.view, set.cluster == bank) else { continue };
            let ([rows, cols], [.., kh, kw]) = (view.source(set.block), set.block);
            let len = rows * cols * kh * kw;
            covered.extend(view.at.iter().map(|&at| at as usize..at as usize + len));
        }
        covered.sort_by_key(|range| range.start);
        let (mut unread, mut end) = (vec![], 0);
        for range in covered.into_iter().chain(std::iter::once(len..len)) {
            if end < range.start {
                unread.push(end..range.start);
            }
            end = end.max(range.end);
        }
        unread
    }
}
