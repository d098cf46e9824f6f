//! Refinement moves coefficients: every new group gets a copy of the rows its layers used, and of their momentum; all but
//! the first group of each that split may [turn](Turn) away from it.
//!
//! Templates, tensors and programs stay where they are; only the table of which row makes which cell is written anew. So
//! right after copies every weight is the same, bit for bit.

use std::collections::BTreeSet;

use superweight_engine::{Device, Error, Memory, Mix, Sgd};
use superweight_plan::{SetId, SharingPlan, TemplateSet};

use super::init::{Purpose, direction, dot};
use super::{Bank, MixRows, Rows, coefficients_name, mix_sets, pattern_rows, superweights_of};
use crate::random::Draws;

/// How far groups that part turn away from the coefficients they had.
///
/// While layers share α, every template moves along the same sum of gradients, αₖ·Σ dL/dW: of all that K templates could
/// learn, they learn one direction. Copies of α start on it, and what makes layers differ has to grow from next to
/// nothing. A group that turns starts as it would have with coefficients of its own, on templates that have learned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// From 0, a copy, to 1, a direction of its own; as long as the coefficients it parts from, whose momentum it keeps the
    /// rest of.
    pub share: f64,
    /// What directions are drawn from.
    pub seed: u64,
}

impl Turn {
    /// Copies.
    pub const NONE: Self = Self { share: 0.0, seed: 0 };

    /// A row turned towards row `row` of the directions.
    fn turned(
        self,
        alpha: &[f32],
        set: &TemplateSet,
        has_patterns: bool,
        draws: Draws,
        row: usize,
    ) -> Vec<f32> {
        let old: Vec<f64> = alpha.iter().map(|&a| f64::from(a)).collect();
        let length = dot(&old, &old).sqrt();
        let new = direction(set, has_patterns, draws, row);
        let between: Vec<f64> =
            old.iter().zip(new).map(|(a, d)| (1.0 - self.share) * a + self.share * length * d).collect();
        let shrunk = dot(&between, &between).sqrt();
        let scale = if shrunk > 0.0 { length / shrunk } else { 0.0 };
        between.into_iter().map(|a| (a * scale) as f32).collect()
    }
}

impl<D: Device> Bank<D> {
    /// Goes over to a plan that differs in its coefficient groups alone, which split those there are.
    ///
    /// # Panics
    /// Where it differs otherwise, joins layers that had different coefficients, or is over what was reserved: such a
    /// plan does not come from refinement.
    pub fn refine(
        &mut self,
        plan: SharingPlan,
        memory: &mut Memory<D>,
        optimizer: &mut Sgd<D>,
        turn: Turn,
    ) -> Result<(), Error> {
        let same = self.plan.template_sets == plan.template_sets && self.plan.layers == plan.layers;
        assert!(same, "refinement changes coefficient groups and nothing else");
        let (old, new) = (Rows::coefficients(&self.plan), Rows::coefficients(&plan));
        let patterns = pattern_rows(&plan);
        for (i, set) in plan.template_sets.iter().enumerate().filter(|(_, set)| set.templates > 1) {
            let (id, k) = (SetId(i), set.templates);
            assert!(new.live(id) <= old.capacity(id), "refinement keeps within the reserve");
            let sources = sources(&plan, id, &old, &new);
            let copied = |from: Vec<f32>| {
                let mut to = vec![0.0; from.len()];
                for (row, &source) in sources.iter().enumerate() {
                    to[row * k..(row + 1) * k].copy_from_slice(&from[source * k..(source + 1) * k]);
                }
                to
            };
            let name = coefficients_name(id);
            let region = memory.layout().parameter(&name)?;
            let mut alpha = copied(memory.parameter(&name)?);
            let mut momentum = optimizer.momentum(region).map(copied);
            if turn.share > 0.0 {
                let draws = Draws::new(&[turn.seed, Purpose::Turns as u64, i as u64]);
                for row in parted(&sources) {
                    let at = row * k..(row + 1) * k;
                    let turned = turn.turned(&alpha[at.clone()], set, patterns[i] > 0, draws, row);
                    alpha[at.clone()].copy_from_slice(&turned);
                    for moved in momentum.iter_mut().flat_map(|all| &mut all[at.clone()]) {
                        *moved *= (1.0 - turn.share) as f32;
                    }
                }
            }
            memory.set_parameter(&name, &alpha)?;
            if let Some(momentum) = momentum {
                optimizer.set_momentum(region, &momentum)?;
            }
        }
        self.mix = Mix::new(memory.device(), mix_sets(&plan, &MixRows::of(&plan), memory.layout())?)?;
        self.plan = plan;
        Ok(())
    }
}

/// The rows of groups that part: all but the first copy of each old row.
fn parted(sources: &[usize]) -> Vec<usize> {
    let mut kept = BTreeSet::new();
    (0..sources.len()).filter(|&row| !kept.insert(sources[row])).collect()
}

/// The old row that each new row is a copy of.
fn sources(plan: &SharingPlan, set: SetId, old: &Rows, new: &Rows) -> Vec<usize> {
    let mut sources = vec![None; new.live(set)];
    for id in superweights_of(plan, set) {
        for &layer in plan.superweight(id).groups.iter().flat_map(|group| &group.layers) {
            for tile in plan.layers[layer.0].tiles.iter().filter(|tile| tile.superweight == id) {
                let [down, across] = plan.cells(set, &tile.at);
                for cell in (0..down).flat_map(|r| (0..across).map(move |c| [r, c])) {
                    let (from, to) = (old.row(id, layer, cell), new.row(id, layer, cell));
                    let before = sources[to].replace(from);
                    assert!(before.is_none_or(|before| before == from), "refinement only splits groups");
                }
            }
        }
    }
    let used = |source: Option<usize>| source.expect("every row of a group is some layer's cell");
    sources.into_iter().map(used).collect()
}
