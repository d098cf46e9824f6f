//! Copy of coefficients in refinement: every new group gets the rows that its layers used, with
//! their momentum.
//!
//! Templates, tensors and programs stay where they are. Only the table that assigns rows to cells
//! is rebuilt, so that right after refinement every composed weight is the same, bit for bit.

use superweight_engine::{Device, Error, Memory, Mix, Sgd};
use superweight_plan::{SetId, SharingPlan};

use super::compose::{Bank, mix_sets};
use super::names::coefficients_name;
use super::rows::{MixRows, Rows, superweights_of};

impl<D: Device> Bank<D> {
    /// Switches to a plan that differs only in its coefficient groups, each of which is part of a
    /// present group.
    ///
    /// # Panics
    /// If the plan differs otherwise, joins layers of different groups, or needs more rows than are
    /// reserved. Refinement makes no such plan.
    pub fn refine(
        &mut self,
        plan: SharingPlan,
        memory: &mut Memory<D>,
        optimizer: &mut Sgd<D>,
    ) -> Result<(), Error> {
        let same = self.plan.template_sets == plan.template_sets && self.plan.layers == plan.layers;
        assert!(same, "refinement changes only coefficient groups");
        let (old, new) = (Rows::coefficients(&self.plan), Rows::coefficients(&plan));
        for (i, set) in plan.template_sets.iter().enumerate().filter(|(_, set)| set.templates > 1) {
            let (id, k) = (SetId(i), set.templates);
            assert!(new.live(id) <= old.capacity(id), "the reserve has room for all new rows");
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
            let alpha = copied(memory.parameter(&name)?);
            memory.set_parameter(&name, &alpha)?;
            if let Some(momentum) = optimizer.momentum(region) {
                optimizer.set_momentum(region, &copied(momentum))?;
            }
        }
        let sets = mix_sets(&plan, &MixRows::of_plan(&plan), memory.layout(), self.weight_decay)?;
        self.mix = Mix::new(memory.device(), sets)?;
        self.plan = plan;
        Ok(())
    }
}

/// For each new row of a set, the old row that it is a copy of.
fn sources(plan: &SharingPlan, set: SetId, old: &Rows, new: &Rows) -> Vec<usize> {
    let mut sources = vec![None; new.live(set)];
    for id in superweights_of(plan, set) {
        for &layer in plan.superweight(id).groups.iter().flat_map(|group| &group.layers) {
            for tile in plan.layers[layer.0].tiles.iter().filter(|tile| tile.superweight == id) {
                let [down, across] = plan.cells(set, &tile.at);
                for cell in (0..down).flat_map(|r| (0..across).map(move |c| [r, c])) {
                    let (from, to) = (old.row(id, layer, cell), new.row(id, layer, cell));
                    let before = sources[to].replace(from);
                    assert!(
                        before.is_none_or(|before| before == from),
                        "refinement only splits groups"
                    );
                }
            }
        }
    }
    let used = |source: Option<usize>| source.expect("a layer of the group uses every row");
    sources.into_iter().map(used).collect()
}
