//! Composition of weights from templates and coefficients, and its backward pass.
//!
//! ```text
//! θ = Σₖ αₖTₖ (Eq. 1)          dL/dαₖ = ⟨dL/dθ, Tₖ⟩          dL/dTₖ = Σ αₖ·dL/dθ
//! ```
//!
//! A plan becomes one [`MixSet`] per template set, so that all layers are mixed together, and one
//! [`BankViewSet`] per bank.

use superweight_engine::{
    BankView, BankViewSet, BankViews, Block, Device, Error, Layout, LayoutBuilder, Memory, Mix,
    MixFactors, MixGradients, MixOutput, MixSet, MixUse, RankOne, Region,
};
use superweight_plan::{ClusterId, LayerId, LayerKind, SetId, SharingPlan};

use super::names::{
    bank_name, coefficients_name, factors_name, kind_of, mixed_name, patterns_name, templates_name,
    weight_name,
};
use super::rows::{MixRows, Rows, pattern_rows};

/// Adds banks, templates, patterns, factors and coefficients of a plan to a layout.
///
/// If the plan keeps a reserve, there is room for coefficients of every layer's own, so that
/// refinement moves no other tensor.
pub fn declare(plan: &SharingPlan, layout: &mut LayoutBuilder) -> Result<(), Error> {
    let (MixRows { cells, coefficients: rows }, patterns) =
        (MixRows::of_plan(plan), pattern_rows(plan));
    for (i, cluster) in plan.clusters.iter().enumerate() {
        if let Some(len) = cluster.bank {
            layout.parameter(bank_name(ClusterId(i)), len as usize)?;
        }
    }
    for (i, set) in plan.template_sets.iter().enumerate() {
        let id = SetId(i);
        layout.parameter(templates_name(id), set.templates * set.block_len() as usize)?;
        if plan.factor_parameters(id) > 0 {
            layout.parameter(factors_name(id), plan.factor_parameters(id) as usize)?;
        }
        if set.templates > 1 {
            layout.parameter(coefficients_name(id), rows.capacity(id) * set.templates)?;
        }
        if patterns[i] > 0 {
            layout.parameter(patterns_name(id), patterns[i] * set.templates)?;
            layout.parameter(mixed_name(id), cells.capacity(id) * set.templates)?;
        }
    }
    Ok(())
}

/// The composition of a plan, prepared for a device.
#[derive(Debug)]
pub struct Bank<D: Device> {
    pub(super) plan: SharingPlan,
    pub(super) views: BankViews<D>,
    pub(super) mix: Mix<D>,
    /// Weight decay of composed linear weights.
    pub(super) weight_decay: f32,
    /// Scratch bytes that suffice for composing before and after any refinement.
    pub(super) refined_scratch_bytes: usize,
}

impl<D: Device> Bank<D> {
    /// Prepares the composition. `layout` contains all members' tensors and those that [`declare`]
    /// added. The backward pass adds `weight_decay` times every composed linear weight to its
    /// gradient.
    pub fn new(
        device: &D,
        plan: SharingPlan,
        layout: &Layout,
        weight_decay: f32,
    ) -> Result<Self, Error> {
        let views = BankViews::new(device, view_sets(&plan, layout)?)?;
        let mix =
            Mix::new(device, mix_sets(&plan, &MixRows::of_plan(&plan), layout, weight_decay)?)?;
        let refined_scratch_bytes = match plan.bill.reserved {
            0 => mix.scratch_bytes(),
            _ => {
                let rows = MixRows::per_layer(&plan);
                let per_layer = Mix::new(device, mix_sets(&plan, &rows, layout, weight_decay)?)?;
                per_layer.scratch_bytes().max(mix.scratch_bytes())
            }
        };
        Ok(Self { plan, views, mix, weight_decay, refined_scratch_bytes })
    }

    /// The sharing plan.
    pub fn plan(&self) -> &SharingPlan {
        &self.plan
    }

    /// Bytes of the arena that composing needs. Programs may use the same bytes before and after.
    pub fn scratch_bytes(&self) -> usize {
        self.mix.scratch_bytes()
    }

    /// Bytes of the arena that composing needs if coefficients may be refined later, so that
    /// [`Bank::refine`] fits into the same arena.
    pub fn refined_scratch_bytes(&self) -> usize {
        self.refined_scratch_bytes
    }

    /// Writes the weight of every composed layer of every member: all copies, or only those that
    /// kernels read.
    pub fn compose(&self, memory: &mut Memory<D>, output: MixOutput) -> Result<(), Error> {
        memory.apply_views(&self.views)?;
        memory.mix(&self.mix, output)
    }

    /// Writes the gradients of templates, coefficients and banks from dL/dW of every composed
    /// layer.
    pub fn compose_backward(&self, memory: &mut Memory<D>) -> Result<(), Error> {
        memory.mix_backward(&self.mix)?;
        memory.apply_views_backward(&self.views)
    }
}

/// Returns the views of every bank: where each template that is read from it lies.
fn view_sets(plan: &SharingPlan, layout: &Layout) -> Result<Vec<BankViewSet>, Error> {
    let mut all = vec![];
    for (i, _) in plan.clusters.iter().enumerate().filter(|(_, cluster)| cluster.bank.is_some()) {
        let mut views = vec![];
        for (s, set) in plan.template_sets.iter().enumerate().filter(|(_, set)| set.cluster.0 == i)
        {
            let Some(view) = &set.view else { continue };
            let ([rows, cols, kh, kw], templates) =
                (set.block, layout.parameter(&templates_name(SetId(s)))?);
            let shape = Block { rows, positions: kh * kw, cols };
            let factors = match plan.factor_parameters(SetId(s)) {
                0 => None,
                _ => {
                    let all = layout.parameter(&factors_name(SetId(s)))?;
                    let cols = Region { offset: all.offset + rows, len: cols, ..all };
                    Some(RankOne { rows: Region { len: rows, ..all }, cols })
                }
            };
            views.extend(view.at.iter().enumerate().map(|(k, &at)| {
                let offset = templates.offset + k * shape.len();
                let tensor = Region { offset, len: shape.len(), ..templates };
                BankView { tensor, shape, at: at as usize, from: view.source(set.block), factors }
            }));
        }
        let bank = layout.parameter(&bank_name(ClusterId(i)))?;
        all.push(BankViewSet { name: format!("cluster {i}"), bank, views });
    }
    Ok(all)
}

/// Returns one set per template set: for every cell of every layer, the row of coefficients that
/// mixes it and its location in the weight.
pub(super) fn mix_sets(
    plan: &SharingPlan,
    rows: &MixRows,
    layout: &Layout,
    weight_decay: f32,
) -> Result<Vec<MixSet>, Error> {
    let patterns = pattern_rows(plan);
    let mut sets = Vec::with_capacity(plan.template_sets.len());
    for (i, set) in plan.template_sets.iter().enumerate() {
        let [height, width, kh, kw] = set.block;
        let coefficients = match set.templates {
            1 => None,
            k => {
                let id = SetId(i);
                let name = if patterns[i] > 0 { mixed_name(id) } else { coefficients_name(id) };
                Some(Region { len: rows.cells.live(id) * k, ..layout.parameter(&name)? })
            }
        };
        sets.push(MixSet {
            name: format!("template set {i}"),
            block: Block { rows: height, positions: kh * kw, cols: width },
            blocks: layout.parameter(&templates_name(SetId(i)))?,
            coefficients,
            factors: None,
            uses: vec![],
            gradients: MixGradients::Both,
            weight_decay: if kind_of(plan, SetId(i)) == LayerKind::Linear {
                weight_decay
            } else {
                0.0
            },
        });
    }
    for (i, planned) in
        plan.layers.iter().enumerate().filter(|(_, planned)| !planned.tiles.is_empty())
    {
        let tensor = layout.parameter(&weight_name(plan, LayerId(i)))?;
        for tile in &planned.tiles {
            let id = tile.superweight;
            let SetId(set) = plan.superweight(id).set;
            let Block { rows: height, cols: width, .. } = sets[set].block;
            let [down, across] = plan.cells(SetId(set), &tile.at);
            for [r, c] in (0..down).flat_map(|r| (0..across).map(move |c| [r, c])) {
                let from = [r * height, c * width];
                sets[set].uses.push(MixUse {
                    cell: rows.cells.row(id, LayerId(i), [r, c]),
                    tensor,
                    inputs: planned.layer.inp,
                    at: [tile.at.rows.start + from[0], tile.at.cols.start + from[1]],
                    extent: [
                        height.min(tile.at.rows.len() - from[0]),
                        width.min(tile.at.cols.len() - from[1]),
                    ],
                    factor: tile.factor as f32,
                });
            }
        }
    }
    sets.iter_mut().for_each(|set| set.uses.sort_by_key(|used| used.cell));
    for (i, factors) in factor_rows(plan, rows).into_iter().enumerate() {
        let (id, k) = (SetId(i), plan.template_sets[i].templates);
        if patterns[i] > 0 {
            let gains = layout.parameter(&coefficients_name(id))?;
            sets[i].factors = Some(MixFactors {
                patterns: layout.parameter(&patterns_name(id))?,
                gains: Region { len: rows.coefficients.live(id) * k, ..gains },
                rows: factors,
            });
        }
    }
    Ok(sets)
}

/// For each row that mixes a cell, the row of patterns and the row of coefficients whose product it
/// is; one list per set, empty without patterns.
fn factor_rows(
    plan: &SharingPlan,
    MixRows { cells, coefficients }: &MixRows,
) -> Vec<Vec<[u32; 2]>> {
    let mut all = vec![vec![]; plan.template_sets.len()];
    if !plan.has_patterns() {
        return all;
    }
    let patterns = Rows::patterns(plan);
    for (i, factors) in
        all.iter_mut().enumerate().filter(|(i, _)| plan.template_sets[*i].templates > 1)
    {
        factors.resize(cells.live(SetId(i)), [0; 2]);
    }
    for (i, planned) in plan.layers.iter().enumerate() {
        for tile in &planned.tiles {
            let (id, layer) = (tile.superweight, LayerId(i));
            let set = plan.superweight(id).set;
            if plan.set(set).templates < 2 {
                continue;
            }
            let [down, across] = plan.cells(set, &tile.at);
            for cell in (0..down).flat_map(|r| (0..across).map(move |c| [r, c])) {
                let factors =
                    [&patterns, coefficients].map(|rows| rows.row(id, layer, cell) as u32);
                all[set.0][cells.row(id, layer, cell)] = factors;
            }
        }
    }
    all
}
