//! What every layer by itself asks of the coefficients it shares: dL/dα per layer, exact, without another pass.
//!
//! ```text
//! dL/dαᵢ[p, k] = factorᵢ·⟨dL/dWᵢ on cell p, Tₖ⟩        with patterns: dL/dαᵢ[k] = factorᵢ·⟨dL/dWᵢ, patternₖ ⊗ Tₖ⟩
//! ```
//!
//! It is the backward half of a composition in which every layer has rows of its own, so a second [`Mix`] over the same
//! templates and tensors does it; nothing is ever composed by it, and templates' gradients stay the bank's. Its rows lie
//! in the parameter storage under their own name, in no optimizer group: writing them into the unused rows of the
//! coefficients would have saved a few rows of numbers and made the optimizer train them.

use superweight_engine::{Device, Error, Layout, LayoutBuilder, Memory, Mix, MixGradients, Region};
use superweight_plan::{LayerId, SetId, SharingPlan, SuperWeightId};

use super::compose::mix_sets;
use super::rows::{MixRows, Rows};

fn probe_name(set: SetId) -> String {
    format!("probe.{set}")
}

/// Of the rows that cells would be mixed by, with patterns: dL/dα is made of them.
fn mixed_name(set: SetId) -> String {
    format!("probe.mixed.{set}")
}

/// Sets that have coefficients.
fn mixed(plan: &SharingPlan) -> impl Iterator<Item = SetId> + '_ {
    let sets = plan.template_sets.iter().enumerate();
    sets.filter(|(_, set)| set.templates > 1).map(|(i, _)| SetId(i))
}

/// Adds to a layout what a [`CoefficientProbe`] needs.
pub fn declare_probe(plan: &SharingPlan, layout: &mut LayoutBuilder) -> Result<(), Error> {
    let MixRows { cells, coefficients: rows } = MixRows::own(plan);
    for set in mixed(plan) {
        let k = plan.set(set).templates;
        layout.parameter(probe_name(set), rows.live(set) * k)?;
        if plan.has_patterns() {
            layout.parameter(mixed_name(set), cells.live(set) * k)?;
        }
    }
    Ok(())
}

/// dL/dα of every layer, prepared for a device.
#[derive(Debug)]
pub struct CoefficientProbe<D: Device> {
    mix: Mix<D>,
    /// Set after set.
    gradients: Vec<(SetId, Region)>,
    rows: Rows,
}

impl<D: Device> CoefficientProbe<D> {
    /// Prepares it; `layout` has what [`declare_probe`] and [`declare`](super::declare) added.
    pub fn new(device: &D, plan: &SharingPlan, layout: &Layout) -> Result<Self, Error> {
        let rows = MixRows::own(plan);
        // What a layer asks for is dL/dα: decay asks the same of all of them.
        let all = mix_sets(plan, &rows, layout, 0.0)?.into_iter().enumerate();
        let (mut sets, mut gradients) = (vec![], vec![]);
        for (i, mut set) in all.filter(|(i, _)| plan.template_sets[*i].templates > 1) {
            let name = probe_name(SetId(i));
            set.name = name.clone();
            let alpha = layout.parameter(&name)?;
            set.coefficients = Some(match &mut set.factors {
                Some(factors) => {
                    factors.gains = alpha;
                    layout.parameter(&mixed_name(SetId(i)))?
                }
                None => alpha,
            });
            set.gradients = MixGradients::Coefficients;
            sets.push(set);
            gradients.push((SetId(i), layout.gradient(&name)?));
        }
        Ok(Self { mix: Mix::new(device, sets)?, gradients, rows: rows.coefficients })
    }

    /// Bytes of the arena that it needs.
    pub fn scratch_bytes(&self) -> usize {
        self.mix.scratch_bytes()
    }

    /// Turns dL/dW of the last run into dL/dα of every layer.
    pub fn run(&self, memory: &mut Memory<D>) -> Result<(), Error> {
        memory.mix_backward(&self.mix)
    }

    /// Where dL/dα lie, set after set.
    pub fn gradients(&self) -> Vec<Region> {
        self.gradients.iter().map(|(_, region)| *region).collect()
    }

    /// In which of [`CoefficientProbe::gradients`], and from which number on, one layer's dL/dα of a SuperWeight lies: the cells
    /// that the layer uses, row by row, K numbers each.
    pub fn place(
        &self,
        plan: &SharingPlan,
        superweight: SuperWeightId,
        layer: LayerId,
    ) -> (usize, usize) {
        let set = plan.superweight(superweight).set;
        let index = self.gradients.iter().position(|(of, _)| *of == set);
        let index = index.expect("only SuperWeights with coefficients are asked for");
        (index, self.rows.row(superweight, layer, [0, 0]) * plan.set(set).templates)
    }
}
