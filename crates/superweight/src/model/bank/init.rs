//! Where training starts: every number from the seed and its own place, so that order and device do not matter.
//!
//! | numbers | start |
//! |---|---|
//! | templates, or the numbers that they are looked at in | N(0, d²), d from the plan ([`Scale`](superweight_plan::Scale)) |
//! | patterns, else coefficients | rows of the plan's length: orthogonal where the set (or all sets of K that look at the same numbers) has at most K rows, else random directions |
//! | coefficients of patterns | ± the plan's gain |
//! | factors | N(1, ¼), as BatchEnsemble has it |
//! | dense convolutions | N(0, 2 / fan-in) |
//! | dense linear weights, biases | U(±1/√in) as PyTorch has it, 0 |
//! | batch norm | scale 1, shift 0, running mean 0, running variance 1 |

use superweight_engine::{Device, Error, Memory, oihw_to_ohwi};
use superweight_plan::{
    ClusterId, LayerId, LayerKind, SetId, SharingPlan, TemplateSet, VectorKind,
};

use super::names::{
    coefficients_name, factors_name, bank_name, patterns_name, scope, templates_name,
    weight_name,
};
use super::rows::Rows;
use super::rows::pattern_rows;
use crate::rng::Draws;

/// Deviation of factors from one.
const FACTOR_DEVIATION: f64 = 0.5;

/// What a tensor is drawn for.
#[derive(Clone, Copy)]
enum Purpose {
    Templates = 1,
    Coefficients = 2,
    Dense = 3,
    Signs = 4,
}

/// Sets every trainable number and running statistic.
pub fn initialize<D: Device>(
    plan: &SharingPlan,
    memory: &mut Memory<D>,
    seed: u64,
) -> Result<(), Error> {
    let draws = |purpose: Purpose, index: usize| Draws::new(&[seed, purpose as u64, index as u64]);
    let (rows, patterns) = (Rows::coefficients(plan), pattern_rows(plan));
    for (i, cluster) in plan.clusters.iter().enumerate() {
        let (normal, of) = (draws(Purpose::Templates, i), |set: &&TemplateSet| set.cluster.0 == i);
        if let (Some(numbers), Some(set)) = (cluster.bank, plan.template_sets.iter().find(of)) {
            let numbers: Vec<f32> =
                (0..numbers).map(|n| (set.std * normal.normal(n)) as f32).collect();
            memory.set_parameter(&bank_name(ClusterId(i)), &numbers)?;
        }
    }
    for (i, set) in plan.template_sets.iter().enumerate() {
        if set.view.is_none() {
            let normal = draws(Purpose::Templates, i);
            let numbers = 0..set.templates as u64 * set.block_len();
            let templates: Vec<f32> =
                numbers.map(|n| (set.std * normal.normal(n)) as f32).collect();
            memory.set_parameter(&templates_name(SetId(i)), &templates)?;
        }
        if plan.factor_parameters(SetId(i)) > 0 {
            let normal = draws(Purpose::Coefficients, i);
            let factor = |n| (1.0 + FACTOR_DEVIATION * normal.normal(n)) as f32;
            let factors: Vec<f32> = (0..plan.factor_parameters(SetId(i))).map(factor).collect();
            memory.set_parameter(&factors_name(SetId(i)), &factors)?;
        }
        if set.templates > 1 {
            let (id, k) = (SetId(i), set.templates);
            let long = |own: usize| -> Vec<f32> {
                let (first, before, others) = alike(plan, &rows, i);
                let unit = unit_rows(own + others, k, draws(Purpose::Coefficients, first));
                let unit = unit[before * k..(before + own) * k].iter();
                unit.map(|a| (f64::from(*a) * set.row_norm) as f32).collect()
            };
            let mut alpha = match patterns[i] {
                0 => long(rows.live(id)),
                cells => {
                    memory.set_parameter(&patterns_name(id), &long(cells))?;
                    let signs = draws(Purpose::Signs, i);
                    let gain = |n| set.gain.copysign(signs.signed_unit(n)) as f32;
                    (0..(rows.live(id) * k) as u64).map(gain).collect()
                }
            };
            alpha.resize(rows.capacity(id) * k, 0.0);
            memory.set_parameter(&coefficients_name(id), &alpha)?;
        }
    }
    for (i, planned) in
        plan.layers.iter().enumerate().filter(|(_, planned)| planned.tiles.is_empty())
    {
        let (layer, draws) = (&planned.layer, draws(Purpose::Dense, i));
        let values: Vec<f32> = match layer.kind {
            LayerKind::Linear => {
                let bound = 1.0 / (layer.inp as f64).sqrt();
                (0..layer.len()).map(|n| (bound * draws.signed_unit(n)) as f32).collect()
            }
            LayerKind::Conv | LayerKind::Depthwise => {
                (0..layer.len()).map(|n| (layer.he_std() * draws.normal(n)) as f32).collect()
            }
        };
        let dims = [layer.out, layer.inp, layer.kernel[0], layer.kernel[1]];
        memory.set_parameter(&weight_name(plan, LayerId(i)), &oihw_to_ohwi(&values, dims))?;
    }
    for vector in &plan.vectors {
        let value = if vector.kind == VectorKind::NormScale { 1.0 } else { 0.0 };
        memory.set_parameter(
            &(scope(vector.member) + &vector.name),
            &vec![value; vector.len as usize],
        )?;
    }
    let statistics: Vec<_> =
        memory.layout().statistics().map(|(name, region)| (name.to_owned(), region.len)).collect();
    for (name, len) in statistics {
        let value = if name.ends_with(".running_var") { 1.0 } else { 0.0 };
        memory.set_statistic(&name, &vec![value; len])?;
    }
    Ok(())
}

/// Sets that look at the same numbers begin as the rows of one would: the first of those with as many templates, the rows of those before
/// this one, and of all others. Other sets are by themselves.
fn alike(plan: &SharingPlan, rows: &Rows, i: usize) -> (usize, usize, usize) {
    let set = &plan.template_sets[i];
    let same =
        |other: &TemplateSet| (other.cluster, other.templates) == (set.cluster, set.templates);
    let all = plan
        .template_sets
        .iter()
        .enumerate()
        .filter(|(_, other)| set.view.is_some() && same(other));
    let (mut first, mut before, mut others) = (i, 0, 0);
    for (n, live) in all.map(|(n, _)| (n, rows.live(SetId(n)))).filter(|&(n, _)| n != i) {
        first = first.min(n);
        before += if n < i { live } else { 0 };
        others += live;
    }
    (first, before, others)
}

/// `rows` unit vectors of length `k`: orthonormal (Gram–Schmidt, twice, in f64) as far as there is room.
fn unit_rows(rows: usize, k: usize, draws: Draws) -> Vec<f32> {
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(rows);
    for row in 0..rows {
        let mut v: Vec<f64> = (0..k).map(|n| draws.normal((row * k + n) as u64)).collect();
        if rows <= k {
            for _ in 0..2 {
                for other in &basis {
                    let along = dot(&v, other);
                    v.iter_mut().zip(other).for_each(|(x, o)| *x -= along * o);
                }
            }
        }
        let length = dot(&v, &v).sqrt();
        v.iter_mut().for_each(|x| *x /= length);
        basis.push(v);
    }
    basis.into_iter().flatten().map(|x| x as f32).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_length_one_and_are_orthogonal_where_they_can_be() {
        for (rows, k) in [(1, 2), (5, 5), (7, 30), (40, 3)] {
            let alpha = unit_rows(rows, k, Draws::new(&[rows as u64]));
            let row = |r: usize| {
                alpha[r * k..(r + 1) * k].iter().map(|x| f64::from(*x)).collect::<Vec<_>>()
            };
            for a in 0..rows {
                assert!((dot(&row(a), &row(a)) - 1.0).abs() < 1e-6);
                for b in (0..a).filter(|_| rows <= k) {
                    assert!(dot(&row(a), &row(b)).abs() < 1e-6);
                }
            }
        }
    }
}
