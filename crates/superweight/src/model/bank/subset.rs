//! Some members of a plan: what makes their weights, and which numbers none of them has a say in.
//!
//! A step that trains a few of the members composes those alone and goes back from those alone, so that whatever a weight is
//! decayed by is asked for by layers that are trained, and it leaves alone what only the others have: their batch norms and
//! biases, layers of their own, rows of coefficients that nobody else mixes by. As if the others were not there.

use std::collections::HashSet;
use std::ops::Range;

use superweight_engine::{Device, Error, Layout, Memory, Mix, MixOutput, Region};
use superweight_plan::{ClusterId, LayerId, MemberId, SetId, SharingPlan};

use super::compose::{Bank, mix_sets};
use super::names::{
    coefficients_name, factors_name, bank_name, patterns_name, scope, templates_name,
    weight_name,
};
use super::rows::pattern_rows;
use super::rows::{MixRows, Rows};

/// A [`Bank`] as some members use it.
#[derive(Debug)]
pub struct BankSubset<D: Device> {
    mix: Mix<D>,
}

impl<D: Device> Bank<D> {
    /// The part of these members.
    pub fn subset(&self, memory: &Memory<D>, members: &[MemberId]) -> Result<BankSubset<D>, Error> {
        let mut sets =
            mix_sets(&self.plan, &MixRows::of(&self.plan), memory.layout(), self.weight_decay)?;
        let layers = self.plan.layers.iter().enumerate();
        let theirs = layers.filter(|(_, planned)| members.contains(&planned.layer.member));
        let place =
            |(i, _)| Ok(memory.layout().parameter(&weight_name(&self.plan, LayerId(i)))?.offset);
        let tensors = theirs.map(place).collect::<Result<HashSet<usize>, Error>>()?;
        sets.iter_mut()
            .for_each(|set| set.uses.retain(|used| tensors.contains(&used.tensor.offset)));
        Ok(BankSubset { mix: Mix::new(memory.device(), sets)? })
    }

    /// [`Bank::compose`] for these members alone: weights of others stay as they are.
    pub fn compose_subset(
        &self,
        part: &BankSubset<D>,
        memory: &mut Memory<D>,
        readers: MixOutput,
    ) -> Result<(), Error> {
        memory.apply_views(&self.views)?;
        memory.mix(&part.mix, readers)
    }

    /// [`Bank::compose_backward`] from these members alone.
    pub fn compose_subset_backward(
        &self,
        part: &BankSubset<D>,
        memory: &mut Memory<D>,
    ) -> Result<(), Error> {
        memory.mix_backward(&part.mix)?;
        memory.apply_views_backward(&self.views)
    }
}

/// What none of these members reads, of the trained numbers.
pub(crate) fn unused_ranges(
    plan: &SharingPlan,
    layout: &Layout,
    members: &[MemberId],
) -> Result<Vec<Range<usize>>, Error> {
    let (mut idle, mut rows): (Vec<Range<usize>>, Vec<Range<usize>>) = (vec![], vec![]);
    let mut whole = |name: &str| -> Result<(), Error> {
        let Region { offset, len, .. } = layout.parameter(name)?;
        idle.push(offset..offset + len);
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
    let read = Read::by(plan, members);
    for (i, _) in plan.clusters.iter().enumerate().filter(|(_, cluster)| cluster.bank.is_some()) {
        let Region { offset, len, .. } = layout.parameter(&bank_name(ClusterId(i)))?;
        rows.extend(
            read.unseen(plan, ClusterId(i), len)
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
        for (_, name, read) in tables.into_iter().filter(|(there, ..)| *there) {
            let first = layout.parameter(&name)?.offset;
            let unread = read.iter().enumerate().filter(|(_, read)| !**read);
            rows.extend(
                unread
                    .map(|(row, _)| first + row * set.templates..first + (row + 1) * set.templates),
            );
        }
    }
    idle.extend(rows);
    Ok(idle)
}

/// Whether a set, a row of its coefficients, a row of its patterns is read.
struct Read {
    sets: Vec<bool>,
    coefficients: Vec<Vec<bool>>,
    patterns: Vec<Vec<bool>>,
}

impl Read {
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

    /// What of a bank no set that is read looks at.
    fn unseen(&self, plan: &SharingPlan, bank: ClusterId, len: usize) -> Vec<Range<usize>> {
        let mut seen: Vec<Range<usize>> = vec![];
        for (set, _) in plan.template_sets.iter().zip(&self.sets).filter(|(_, read)| **read) {
            let (Some(view), true) = (&set.view, set.cluster == bank) else { continue };
            let ([rows, cols], [.., kh, kw]) = (view.source(set.block), set.block);
            seen.extend(view.at.iter().map(|&at| at as usize..at as usize + rows * cols * kh * kw));
        }
        seen.sort_by_key(|range| range.start);
        let (mut unseen, mut end) = (vec![], 0);
        for range in seen.into_iter().chain(std::iter::once(len..len)) {
            if end < range.start {
                unseen.push(end..range.start);
            }
            end = end.max(range.end);
        }
        unseen
    }
}
