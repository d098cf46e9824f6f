//! dL/dα of every layer by itself, for coefficients that several layers share.
//!
//! ```text
//! dL/dαᵢ[p, k] = factorᵢ·⟨dL/dWᵢ on cell p, Tₖ⟩
//! with patterns: dL/dαᵢ[k] = factorᵢ·⟨dL/dWᵢ, patternₖ ⊗ Tₖ⟩
//! ```
//!
//! This is the backward pass of a composition in which every layer has its own rows of α. A second
//! [`Mix`] over the same templates and tensors computes it exactly, without another pass through
//! the networks. It composes no weights and does not change the gradients of templates.
//!
//! Its rows are tensors of their own in the parameter storage, in no optimizer group. Writing them
//! into the unused rows of the coefficients would save a little memory, but the optimizer would
//! then train those rows.

use superweight_engine::{Device, Error, Layout, LayoutBuilder, Memory, Mix, MixGradients, Region};
use superweight_plan::{LayerId, SetId, SharingPlan, SuperWeightId};

use super::compose::mix_sets;
use super::rows::{MixRows, Rows};

fn probe_name(set: SetId) -> String {
    format!("probe.{set}")
}

/// Name of the rows that mix cells, with patterns; dL/dα is computed from their gradients.
fn mixed_name(set: SetId) -> String {
    format!("probe.mixed.{set}")
}

/// Sets with more than one template, and therefore with coefficients.
fn sets_with_coefficients(plan: &SharingPlan) -> impl Iterator<Item = SetId> + '_ {
    let sets = plan.template_sets.iter().enumerate();
    sets.filter(|(_, set)| set.templates > 1).map(|(i, _)| SetId(i))
}

/// Adds the tensors of a [`CoefficientProbe`] to a layout.
pub fn declare_probe(plan: &SharingPlan, layout: &mut LayoutBuilder) -> Result<(), Error> {
    let MixRows { cells, coefficients: rows } = MixRows::per_layer(plan);
    for set in sets_with_coefficients(plan) {
        let k = plan.set(set).templates;
        layout.parameter(probe_name(set), rows.live(set) * k)?;
        if plan.has_patterns() {
            layout.parameter(mixed_name(set), cells.live(set) * k)?;
        }
    }
    Ok(())
}

/// Computes dL/dα of every layer, prepared for a device.
#[derive(Debug)]
pub struct CoefficientProbe<D: Device> {
    mix: Mix<D>,
    /// Every set with coefficients, and the region of its dL/dα.
    gradients: Vec<(SetId, Region)>,
    rows: Rows,
}

impl<D: Device> CoefficientProbe<D> {
    /// Prepares the computation. `layout` contains what [`declare_probe`] and
    /// [`declare`](super::declare) added.
    pub fn new(device: &D, plan: &SharingPlan, layout: &Layout) -> Result<Self, Error> {
        let rows = MixRows::per_layer(plan);
        // Without weight decay: its gradient would be the same for all layers.
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

    /// Bytes of the arena that the computation needs.
    pub fn scratch_bytes(&self) -> usize {
        self.mix.scratch_bytes()
    }

    /// Computes dL/dα of every layer from dL/dW of the last backward pass.
    pub fn run(&self, memory: &mut Memory<D>) -> Result<(), Error> {
        memory.mix_backward(&self.mix)
    }

    /// Regions of dL/dα, one per set with coefficients.
    pub fn gradients(&self) -> Vec<Region> {
        self.gradients.iter().map(|(_, region)| *region).collect()
    }

    /// Location of one layer's dL/dα of a SuperWeight: the index in [`CoefficientProbe::gradients`]
    /// and the offset in that region. There lie K values for each cell that the layer uses, in
    /// row-major order.
    ///
    /// # Panics
    /// If the SuperWeight has no coefficients.
    pub fn location(
        &self,
        plan: &SharingPlan,
        superweight: SuperWeightId,
        layer: LayerId,
    ) -> (usize, usize) {
        let set = plan.superweight(superweight).set;
        let index = self.gradients.iter().position(|(of, _)| *of == set);
        let index = index.expect("the SuperWeight has coefficients");
        (index, self.rows.row(superweight, layer, [0, 0]) * plan.set(set).templates)
    }
}
